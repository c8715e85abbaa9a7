// SPDX-License-Identifier: Apache-2.0
//
// MetricsJson: metrics for a page. Series have the names and labels of /metrics. A histogram is its
// count, its sum, and the buckets that have times, finer than those of /metrics. Thread-safety:
// none; one writer makes one object.
#ifndef QUIRE_APPS_QUIRED_STATUS_METRICS_JSON_H_
#define QUIRE_APPS_QUIRED_STATUS_METRICS_JSON_H_

#include "common/base/observe/metrics.h"
#include "nlohmann/json.hpp"

namespace quire::kvserver {

class MetricsJson final : public MetricsVisitor {
 public:
  /// {"values": {SERIES: n}, "times": {SERIES: {"count", "sum_nanos", "buckets": [[bound, n]]}}}.
  /// Bounds are nanoseconds; null for the last bucket, which has none.
  nlohmann::json Take() { return std::move(json_); }

 protected:
  void OnValue(const Metric& metric, uint64_t value) override;
  void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) override;

 private:
  nlohmann::json json_ = {{"values", nlohmann::json::object()},
                          {"times", nlohmann::json::object()}};
};

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_STATUS_METRICS_JSON_H_
