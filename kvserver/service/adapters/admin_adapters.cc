// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/admin.pb.h"
#include "quire/version.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kDefaultSlowCalls = 100;
constexpr uint32_t kMostSlowCalls = 1000;

/// Collects all metrics for a reply.
class StatsVisitor final : public MetricsVisitor {
 public:
  void Write(v1::StatsReply* reply) {
    for (const auto& [name, value] : values_) {
      v1::CounterValue* const counter = reply->add_counters();
      counter->set_name(name);
      counter->set_value(value);
    }
    for (auto& [name, histogram] : histograms_) *reply->add_histograms() = std::move(histogram);
  }

 protected:
  void OnValue(const Metric& metric, uint64_t value) override {
    values_[SeriesName(metric)] = value;
  }
  void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) override {
    v1::HistogramValue& value = histograms_[SeriesName(metric)];
    value.set_name(SeriesName(metric));
    value.set_sum_nanos(snapshot.sum_nanos);
    for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
      if (snapshot.counts[i] == 0) continue;
      const bool last = i + 1 == LatencyHistogram::kBuckets;
      value.add_bound_nanos(last ? std::numeric_limits<uint64_t>::max()
                                 : LatencyHistogram::UpperBound(i));
      value.add_counts(snapshot.counts[i]);
    }
  }

 private:
  std::map<std::string, uint64_t> values_;
  std::map<std::string, v1::HistogramValue> histograms_;
};

void SlowCallToProto(const SlowCall& call, v1::SlowCall* proto) {
  proto->set_method(call.method);
  proto->set_code(static_cast<uint32_t>(call.code));
  proto->set_ended_unix_micros(call.ended_unix_micros);
  proto->set_nanos(call.time.count());
  proto->set_request_bytes(call.request_bytes);
  proto->set_reply_bytes(call.reply_bytes);
  v1::CallWaits* const waits = proto->mutable_waits();
  waits->set_queue_nanos(call.waits.of(WaitedFor::kQueue).count());
  waits->set_gate_nanos(call.waits.of(WaitedFor::kGate).count());
  waits->set_dram_nanos(call.waits.of(WaitedFor::kDram).count());
  waits->set_ssd_nanos(call.waits.of(WaitedFor::kSsd).count());
  waits->set_selection_nanos(call.waits.of(WaitedFor::kSelection).count());
  waits->set_network_nanos(call.waits.of(WaitedFor::kNetwork).count());
}

Status ReplySlowCalls(const SlowCalls& slow, const Call& call, const v1::SlowCallsRequest& request,
                      v1::SlowCallsReply* reply) {
  if (request.limit() > kMostSlowCalls) {
    return InvalidArgument("limit is ", request.limit(), ": must be 1..", kMostSlowCalls,
                           ", or 0 for ", kDefaultSlowCalls);
  }
  const uint32_t limit = request.limit() == 0 ? kDefaultSlowCalls : request.limit();
  for (const SlowCall& each : slow.Slowest(limit, call.tenant)) {
    SlowCallToProto(each, reply->add_calls());
  }
  return OkStatus();
}

}  // namespace

void AddAdminMethods(std::function<void(MetricsVisitor&)> visit_metrics, const Health* health,
                     const SlowCalls* slow, Clock* clock, Dispatcher* dispatcher) {
  dispatcher->Add<v1::StatsRequest, v1::StatsReply>(
      "quire.v1.Admin/Stats",
      [visit = std::move(visit_metrics), health, clock, start = clock->Now()](
          const Call&, const v1::StatsRequest&, v1::StatsReply* reply) {
        StatsVisitor values;
        visit(values);
        values.Write(reply);
        for (const Health::Degradation& degradation : health->Degradations()) {
          v1::Degradation* proto = reply->add_degradations();
          proto->set_reason(std::string(Name(degradation.trouble)));
          proto->set_detail(degradation.detail);
          proto->set_since_unix_micros(degradation.since_unix_micros);
        }
        reply->set_version(QUIRE_VERSION);
        reply->set_uptime_seconds(
            std::chrono::duration_cast<std::chrono::seconds>(clock->Now() - start).count());
        return OkStatus();
      });
  dispatcher->Add<v1::SlowCallsRequest, v1::SlowCallsReply>(
      "quire.v1.Admin/SlowCalls",
      [slow](const Call& call, const v1::SlowCallsRequest& request, v1::SlowCallsReply* reply) {
        return ReplySlowCalls(*slow, call, request, reply);
      });
}

}  // namespace quire::kvserver
