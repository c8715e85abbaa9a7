// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <utility>

#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/admin.pb.h"
#include "quire/version.h"

namespace quire::kvserver {

void AddAdminMethods(std::function<void(MetricsVisitor&)> visit_metrics, const Health* health,
                     Clock* clock, Dispatcher* dispatcher) {
  dispatcher->Add<v1::StatsRequest, v1::StatsReply>(
      "quire.v1.Admin/Stats",
      [visit = std::move(visit_metrics), health, clock, start = clock->Now()](
          const Call&, const v1::StatsRequest&, v1::StatsReply* reply) {
        MetricValues values;
        visit(values);
        for (const auto& [name, value] : values.values()) {
          v1::CounterValue* counter = reply->add_counters();
          counter->set_name(name);
          counter->set_value(value);
        }
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
}

}  // namespace quire::kvserver
