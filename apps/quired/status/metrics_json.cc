// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/metrics_json.h"

#include <string>

namespace quire::kvserver {
namespace {

/// Name and labels as /metrics has them.
std::string ExportedSeries(const Metric& metric) {
  std::string name = "quire_" + std::string(metric.name);
  if (metric.kind == MetricKind::kCounter) name += "_total";
  return SeriesName({metric.kind, name, metric.help, metric.labels});
}

}  // namespace

void MetricsJson::OnValue(const Metric& metric, uint64_t value) {
  json_["values"][ExportedSeries(metric)] = value;
}

void MetricsJson::OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) {
  nlohmann::json buckets = nlohmann::json::array();
  for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
    if (snapshot.counts[i] == 0) continue;
    nlohmann::json bound = nullptr;
    if (i + 1 < LatencyHistogram::kBuckets) bound = LatencyHistogram::UpperBound(i);
    buckets.push_back({std::move(bound), snapshot.counts[i]});
  }
  json_["times"][ExportedSeries(metric)] = {{"count", snapshot.count()},
                                            {"sum_nanos", snapshot.sum_nanos},
                                            {"buckets", std::move(buckets)}};
}

}  // namespace quire::kvserver
