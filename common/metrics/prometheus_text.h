// SPDX-License-Identifier: Apache-2.0
//
// PrometheusText: metrics in Prometheus' text format 0.0.4. Every name begins with quire_; counters
// end in _total. Histogram bounds are powers of two nanoseconds from 256 ns to 34 s, in seconds;
// their counts are exact. Thread-safety: none; one writer makes one text.
#ifndef QUIRE_COMMON_METRICS_PROMETHEUS_TEXT_H_
#define QUIRE_COMMON_METRICS_PROMETHEUS_TEXT_H_

#include <map>
#include <string>

#include "common/base/observe/metrics.h"

namespace quire {

class PrometheusText final : public MetricsVisitor {
 public:
  /// Content type of the HTTP response.
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

  /// Returns the text of everything visited so far: families by name, series by labels, none twice.
  std::string Text() const;

 protected:
  void OnValue(const Metric& metric, uint64_t value) override;
  void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) override;

 private:
  struct Family {
    MetricKind kind = MetricKind::kGauge;
    std::string help;
    std::map<std::string, std::string> series;  ///< Lines by the labels of their series.
  };
  Family& FamilyOf(const Metric& metric, const std::string& name);

  std::map<std::string, Family> families_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_PROMETHEUS_TEXT_H_
