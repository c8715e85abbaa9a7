// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/status_history.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace quire::kvserver {
namespace {

constexpr std::string_view kRecall = "quire.v1.Session/Recall";

/// How a column is made of a metric. Series of one name are summed.
enum class Column : uint8_t { kTime, kDelta, kNow, kMedian, kNinetyNine };
struct ColumnOf {
  std::string_view name;
  Column how;
  std::string_view metric;
};
constexpr std::array<ColumnOf, StatusHistory::kColumns> kColumnsOfSteps = {{
    {"time", Column::kTime, ""},
    {"dram_hits", Column::kDelta, "dram_unit_hits"},
    {"dram_misses", Column::kDelta, "dram_unit_misses"},
    {"bytes_wanted", Column::kDelta, "session_bytes_wanted"},
    {"bytes_sent", Column::kDelta, "session_bytes_sent"},
    {"ssd_read_bytes", Column::kDelta, "ssd_read_bytes"},
    {"ssd_write_bytes", Column::kDelta, "ssd_write_bytes"},
    {"calls", Column::kDelta, "calls"},
    {"calls_failed", Column::kDelta, "calls_failed"},
    {"admission_refused", Column::kDelta, "admission_refused"},
    {"gate_refused", Column::kDelta, "ssd_gate_refused"},
    {"dram_bytes", Column::kNow, "dram_bytes_used"},
    {"ssd_bytes", Column::kNow, "ssd_bytes_used"},
    {"sessions", Column::kNow, "sessions_open"},
    {"running", Column::kNow, "admission_running"},
    {"queued", Column::kNow, "admission_queued"},
    {"recall_p50", Column::kMedian, "call_seconds"},
    {"recall_p99", Column::kNinetyNine, "call_seconds"},
    {"wait_p99", Column::kNinetyNine, "admission_wait_seconds"},
    {"ssd_p99", Column::kNinetyNine, "store_operation_seconds"},
}};

bool IsRead(std::string_view metric) {
  return std::ranges::any_of(kColumnsOfSteps,
                             [&](const ColumnOf& column) { return column.metric == metric; });
}

/// True for the histograms that are shown, of those with labels.
bool IsShown(const Metric& metric) {
  return std::ranges::all_of(metric.labels, [&](const MetricLabel& label) {
    if (label.name == "method") return label.value == kRecall;
    if (label.name == "tier") return label.value == "ssd";
    if (label.name == "op") return label.value == "read";
    return true;
  });
}

LatencyHistogram::Snapshot Since(const LatencyHistogram::Snapshot& before,
                                 LatencyHistogram::Snapshot now) {
  for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
    now.counts[i] -= std::min(now.counts[i], before.counts[i]);
  }
  return now;
}

int64_t Micros(uint64_t nanos) { return static_cast<int64_t>(nanos / 1000); }

}  // namespace

/// The metrics of the columns at one moment.
class StatusHistory::Reading final : public MetricsVisitor {
 public:
  std::map<std::string, uint64_t> totals;
  std::map<std::string, LatencyHistogram::Snapshot> times;

 protected:
  void OnValue(const Metric& metric, uint64_t value) override {
    if (IsRead(metric.name)) totals[std::string(metric.name)] += value;
  }
  void OnHistogram(const Metric& metric, const LatencyHistogram::Snapshot& snapshot) override {
    if (IsRead(metric.name) && IsShown(metric)) times[std::string(metric.name)].Merge(snapshot);
  }
};

void StatusHistory::Step() {
  Reading now;
  visit_(now);
  const int64_t seconds = clock_.UnixMicros() / 1'000'000;
  MutexLock lock(mutex_);
  Row row{};
  for (size_t i = 0; i < kColumns; ++i) {
    const ColumnOf& column = kColumnsOfSteps[i];
    const std::string metric(column.metric);
    switch (column.how) {
      case Column::kTime:
        row[i] = seconds;
        break;
      case Column::kDelta:
        row[i] = static_cast<int64_t>(now.totals[metric] - totals_[metric]);
        break;
      case Column::kNow:
        row[i] = static_cast<int64_t>(now.totals[metric]);
        break;
      case Column::kMedian:
        row[i] = Micros(Since(times_[metric], now.times[metric]).Quantile(0.5));
        break;
      case Column::kNinetyNine:
        row[i] = Micros(Since(times_[metric], now.times[metric]).Quantile(0.99));
        break;
    }
  }
  totals_ = std::move(now.totals);
  times_ = std::move(now.times);
  // The first reading has what happened since the server began, which is no step.
  if (!std::exchange(has_begun_, true)) return;
  rows_.push_back(row);
  ++last_;
  if (rows_.size() > kSteps) rows_.pop_front();
}

nlohmann::json StatusHistory::After(uint64_t after) const {
  nlohmann::json columns = nlohmann::json::array();
  for (const ColumnOf& column : kColumnsOfSteps) columns.push_back(column.name);
  nlohmann::json rows = nlohmann::json::array();
  MutexLock lock(mutex_);
  // A number from before a restart may be larger than any of now.
  const uint64_t wanted = after > last_ ? last_ : last_ - after;
  const size_t count = std::min<size_t>(rows_.size(), wanted);
  for (auto row = rows_.end() - static_cast<std::ptrdiff_t>(count); row != rows_.end(); ++row) {
    rows.push_back(*row);
  }
  return {{"period_ms", std::chrono::duration_cast<std::chrono::milliseconds>(kPeriod).count()},
          {"last", last_},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)}};
}

}  // namespace quire::kvserver
