// SPDX-License-Identifier: Apache-2.0
//
// Metrics: how a component reports its numbers. Each component has
//
//   void VisitMetrics(MetricsVisitor& visit) const {
//     visit.Counter("dram_evictions", "Extents that left DRAM to make room.", evictions_.Get());
//     visit.Gauge("dram_extents", "Extents held in DRAM.", extents_.Get());
//   }
//
// Exporters (Prometheus text, the Admin service, tests) are visitors. A name is lower case with
// underscores, the unit last. A name has one kind, one help text and one set of label names
// everywhere. Label values are bounded sets: methods, tiers, configured tenants. They never come
// from a caller. Thread-safety: VisitMetrics may be called at any time. Values are read one by one,
// not at one moment.
#ifndef QUIRE_COMMON_BASE_OBSERVE_METRICS_H_
#define QUIRE_COMMON_BASE_OBSERVE_METRICS_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/base/observe/counters.h"
#include "common/base/observe/latency_histogram.h"

namespace quire {

enum class MetricKind : uint8_t {
  kCounter,    ///< A total since the start. Never falls.
  kGauge,      ///< An amount held now.
  kHistogram,  ///< Times; the name ends in _seconds.
};

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};
using MetricLabels = std::initializer_list<MetricLabel>;

/// One series. Views, valid during the visit.
struct Metric {
  MetricKind kind;
  std::string_view name;
  std::string_view help;  ///< One sentence.
  std::span<const MetricLabel> labels;
};

/// `name`, or with labels `name{label="value",...}`.
inline std::string SeriesName(const Metric& metric) {
  std::string series(metric.name);
  for (const MetricLabel& label : metric.labels) {
    series.append(1, series.size() == metric.name.size() ? '{' : ',').append(label.name);
    series.append("=\"").append(label.value).append("\"");
  }
  if (!metric.labels.empty()) series.push_back('}');
  return series;
}

class MetricsVisitor {
 public:
  virtual ~MetricsVisitor() = default;

  void Counter(std::string_view name, std::string_view help, uint64_t value,
               MetricLabels labels = {}) {
    OnValue({MetricKind::kCounter, name, help, {labels.begin(), labels.end()}}, value);
  }
  void Gauge(std::string_view name, std::string_view help, uint64_t value,
             MetricLabels labels = {}) {
    OnValue({MetricKind::kGauge, name, help, {labels.begin(), labels.end()}}, value);
  }
  void Histogram(std::string_view name, std::string_view help, const LatencyHistogram& histogram,
                 MetricLabels labels = {}) {
    OnHistogram({MetricKind::kHistogram, name, help, {labels.begin(), labels.end()}},
                histogram.Read());
  }

 protected:
  virtual void OnValue(const Metric& metric, uint64_t value) = 0;
  virtual void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) = 0;
};

/// Collects counters and gauges by SeriesName.
class MetricValues final : public MetricsVisitor {
 public:
  const std::map<std::string, uint64_t>& values() const { return values_; }

 protected:
  void OnValue(const Metric& metric, uint64_t value) override {
    values_[SeriesName(metric)] = value;
  }
  void OnHistogram(const Metric&, const LatencyHistogram::Snapshot&) override {}

 private:
  std::map<std::string, uint64_t> values_;
};

/// The counters and gauges of `component`, which has VisitMetrics.
template <typename Component>
std::map<std::string, uint64_t> MetricValuesOf(const Component& component) {
  MetricValues values;
  component.VisitMetrics(values);
  return values.values();
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_OBSERVE_METRICS_H_
