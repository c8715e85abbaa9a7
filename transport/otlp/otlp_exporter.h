// SPDX-License-Identifier: Apache-2.0
//
// OtlpExporter: sends ended spans to a collector, over gRPC, from a thread of its own. It sends a
// batch again after a passing trouble, for a while. A collector that is away costs the spans that
// find no room in the queue, and a line of the log a minute.
//
// Thread-safety: all methods may be called concurrently. Ownership: the spans' tracer ends first.
#ifndef QUIRE_TRANSPORT_OTLP_OTLP_EXPORTER_H_
#define QUIRE_TRANSPORT_OTLP_OTLP_EXPORTER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/base/trace/tracer.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/otlp/otlp_settings.h"
#include "transport/otlp/span_queue.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace quire {

class OtlpExporter {
 public:
  /// How long the destructor sends what is left.
  static constexpr Duration kTimeAtEnd = std::chrono::seconds(2);
  /// How long a batch is sent again before it is dropped.
  static constexpr Duration kTimeOfBatch = std::chrono::minutes(1);

  /// Told of batches that were not sent: why, and the spans that were dropped so far.
  using Report = std::function<void(std::string_view why, uint64_t dropped)>;

  /// Begins to send. INVALID_ARGUMENT for a malformed address. A collector need not be there.
  static StatusOr<std::unique_ptr<OtlpExporter>> Start(const OtlpSettings& settings, Report report);
  /// Sends what is left, kTimeAtEnd at most, and only once to a collector that is away.
  ~OtlpExporter();

  SpanSink* sink() { return &queue_; }
  uint64_t exported() const { return exported_.Get(); }
  uint64_t dropped() const { return queue_.dropped(); }
  /// Metrics of the section "Traces" (docs/metrics.md).
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  OtlpExporter(const OtlpSettings& settings, std::shared_ptr<grpc::Channel> channel, Report report);

  void Run();
  /// Sends a batch, again where that may help.
  void SendBatch(const std::string& request, uint64_t spans);
  /// One attempt. `*rejected` gets the spans that the collector refused.
  Status SendOnce(const std::string& request, uint64_t* rejected) QUIRE_EXCLUDES(mutex_);
  void Tell(std::string_view why);

  const OtlpSettings settings_;
  const std::shared_ptr<grpc::Channel> channel_;
  const Report report_;
  SpanQueue queue_;
  Counter exported_, failed_;
  std::optional<TimePoint> told_at_;  ///< Only the thread uses it.

  Mutex mutex_;
  CondVar finished_changed_;
  bool finished_ QUIRE_GUARDED_BY(mutex_) = false;                ///< The thread has nothing left.
  bool given_up_ QUIRE_GUARDED_BY(mutex_) = false;                ///< Nothing is sent any more.
  grpc::ClientContext* call_ QUIRE_GUARDED_BY(mutex_) = nullptr;  ///< The one that runs.
  std::thread thread_;  ///< Last member, because it uses the others.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_OTLP_OTLP_EXPORTER_H_
