// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/top_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace quire::cli {
namespace {

constexpr std::string_view kService = "quire.v1.";
constexpr std::string_view kRecall = "quire.v1.Session/Recall";

/// Value of a label in the name of a series; empty without it.
std::string_view LabelOf(std::string_view series, std::string_view label) {
  const std::string key = std::string(label) + "=\"";
  const size_t at = series.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = series.substr(at + key.size());
  return rest.substr(0, rest.find('"'));
}

bool IsOf(std::string_view series, std::string_view metric) {
  return series.starts_with(metric) &&
         (series.size() == metric.size() || series[metric.size()] == '{');
}

/// Counters and gauges of one sample.
class Values {
 public:
  explicit Values(const TopSample& sample) : sample_(sample) {}

  /// Sum of all series of a metric, or of those with a tenant.
  uint64_t Sum(std::string_view metric, std::string_view tenant = {}) const {
    uint64_t sum = 0;
    for (const auto& [series, value] : sample_.stats.counters) {
      if (!IsOf(series, metric)) continue;
      if (tenant.empty() || LabelOf(series, "tenant") == tenant) sum += value;
    }
    return sum;
  }
  std::vector<std::string> Tenants() const {
    std::vector<std::string> tenants;
    for (const auto& [series, value] : sample_.stats.counters) {
      if (IsOf(series, "tenant_ssd_bytes")) tenants.emplace_back(LabelOf(series, "tenant"));
    }
    return tenants;
  }

 private:
  const TopSample& sample_;
};

const LatencyCounts* HistogramOf(const TopSample& sample, std::string_view series) {
  const auto& all = sample.stats.histograms;
  const auto it = std::ranges::find(all, series, [](const auto& one) { return one.first; });
  return it == all.end() ? nullptr : &it->second;
}

uint64_t CountOf(const LatencyCounts& times) {
  uint64_t count = 0;
  for (const LatencyCounts::Bucket& bucket : times.buckets) count += bucket.count;
  return count;
}

std::optional<double> Ratio(uint64_t part, uint64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(all);
}

/// The change between two samples.
class Changes {
 public:
  Changes(const TopSample* before, const TopSample& now) : now_(now), values_(now) {
    if (before == nullptr || before->at >= now.at) return;
    before_.emplace(*before);
    seconds_ = std::chrono::duration<double>(now.at - before->at).count();
  }

  std::optional<double> PerSecond(std::string_view metric) const {
    if (!before_) return std::nullopt;
    return static_cast<double>(Of(metric)) / seconds_;
  }
  /// Ratio of what two metrics grew by.
  std::optional<double> RatioOf(std::string_view part, std::string_view other) const {
    if (!before_) return std::nullopt;
    return Ratio(Of(part), Of(other));
  }
  /// Growth, 0 at least.
  uint64_t Of(std::string_view metric) const {
    const uint64_t then = before_ ? before_->Sum(metric) : 0;
    const uint64_t now = values_.Sum(metric);
    return now - std::min(now, then);
  }
  bool known() const { return before_.has_value(); }
  double seconds() const { return seconds_; }

 private:
  const TopSample& now_;
  const Values values_;
  std::optional<Values> before_;
  double seconds_ = 0;
};

std::vector<TopMethod> MethodsOf(const TopSample* before, const TopSample& now, double seconds) {
  std::vector<std::pair<uint64_t, TopMethod>> timed;
  for (const auto& [series, times] : now.stats.histograms) {
    if (!IsOf(series, "call_seconds") || times.buckets.empty()) continue;
    const LatencyCounts* const then = before != nullptr ? HistogramOf(*before, series) : nullptr;
    const LatencyCounts since = TimesSince(then, times);
    TopMethod method;
    method.name = LabelOf(series, "method");
    if (method.name.starts_with(kService)) method.name.erase(0, kService.size());
    method.calls = CountOf(times);
    if (seconds > 0) method.per_second = static_cast<double>(CountOf(since)) / seconds;
    const LatencyCounts& shown = since.buckets.empty() ? times : since;
    method.median = Quantile(shown, 0.5).value_or(Duration(0));
    method.ninety_nine = Quantile(shown, 0.99).value_or(Duration(0));
    timed.emplace_back(times.sum_nanos, std::move(method));
  }
  std::ranges::sort(timed, std::greater<>(), &std::pair<uint64_t, TopMethod>::first);
  std::vector<TopMethod> methods;
  methods.reserve(timed.size());
  for (auto& [nanos, method] : timed) methods.push_back(std::move(method));
  return methods;
}

}  // namespace

LatencyCounts TimesSince(const LatencyCounts* before, const LatencyCounts& now) {
  if (before == nullptr) return now;
  std::map<uint64_t, uint64_t> counts;
  for (const LatencyCounts::Bucket& bucket : now.buckets) {
    counts[bucket.bound_nanos] = bucket.count;
  }
  for (const LatencyCounts::Bucket& bucket : before->buckets) {
    const auto it = counts.find(bucket.bound_nanos);
    if (it != counts.end()) it->second -= std::min(it->second, bucket.count);
  }
  LatencyCounts since{.buckets = {},
                      .sum_nanos = now.sum_nanos - std::min(now.sum_nanos, before->sum_nanos)};
  for (const auto& [bound, count] : counts) {
    if (count > 0) since.buckets.push_back({bound, count});
  }
  return since;
}

std::optional<Duration> Quantile(const LatencyCounts& times, double q) {
  const uint64_t all = CountOf(times);
  if (all == 0) return std::nullopt;
  auto left = std::max<uint64_t>(static_cast<uint64_t>(std::ceil(q * static_cast<double>(all))), 1);
  for (const LatencyCounts::Bucket& bucket : times.buckets) {
    if (bucket.count < left) {
      left -= bucket.count;
      continue;
    }
    constexpr uint64_t kLongest = std::numeric_limits<int64_t>::max();
    return Duration(static_cast<int64_t>(std::min(bucket.bound_nanos, kLongest)));
  }
  return std::nullopt;
}

TopNumbers NumbersOf(const TopSample* before, const TopSample& now) {
  const Values values(now);
  const Changes changes(before, now);
  TopNumbers numbers;
  numbers.dram = {values.Sum("dram_bytes_used"), values.Sum("dram_bytes_reserved")};
  numbers.ssd = {values.Sum("ssd_bytes_used"), values.Sum("ssd_bytes_limit")};
  numbers.pinned = values.Sum("dram_bytes_pinned");
  numbers.cached = values.Sum("ssd_bytes_cached");
  numbers.calls_per_second = changes.PerSecond("calls");
  numbers.failed_per_second = changes.PerSecond("calls_failed");
  const uint64_t hits = values.Sum("dram_unit_hits");
  numbers.hit_ratio_in_all = Ratio(hits, hits + values.Sum("dram_unit_misses"));
  if (changes.known()) {
    const uint64_t found = changes.Of("dram_unit_hits");
    numbers.hit_ratio = Ratio(found, found + changes.Of("dram_unit_misses"));
  }
  numbers.moved_ratio_in_all =
      Ratio(values.Sum("session_bytes_sent"), values.Sum("session_bytes_wanted"));
  numbers.moved_ratio = changes.RatioOf("session_bytes_sent", "session_bytes_wanted");
  numbers.asked_per_second = changes.PerSecond("session_bytes_wanted");
  numbers.moved_per_second = changes.PerSecond("session_bytes_sent");
  const std::string recall = "call_seconds{method=\"" + std::string(kRecall) + "\"}";
  if (const LatencyCounts* const times = HistogramOf(now, recall); times != nullptr) {
    const LatencyCounts since =
        TimesSince(changes.known() ? HistogramOf(*before, recall) : nullptr, *times);
    numbers.recall_median = Quantile(since, 0.5);
    numbers.recall_ninety_nine = Quantile(since, 0.99);
  }
  numbers.running = values.Sum("admission_running");
  numbers.waiting = values.Sum("admission_queued");
  numbers.refused = values.Sum("admission_refused") + values.Sum("ssd_gate_refused");
  numbers.sessions = values.Sum("sessions_open");
  numbers.contexts = values.Sum("contexts_open");
  numbers.scrubbed_bytes = values.Sum("scrub_bytes");
  numbers.scrub_damaged = values.Sum("scrub_damaged");
  numbers.scrub_rounds = values.Sum("scrub_rounds");
  numbers.damaged = values.Sum("segments_damaged");
  numbers.repaired = values.Sum("segments_repaired");
  numbers.methods = MethodsOf(changes.known() ? before : nullptr, now, changes.seconds());
  for (const std::string& tenant : values.Tenants()) {
    numbers.tenants.push_back({.name = tenant,
                               .dram_bytes = values.Sum("tenant_dram_bytes", tenant),
                               .ssd_bytes = values.Sum("tenant_ssd_bytes", tenant),
                               .sessions = values.Sum("tenant_sessions", tenant),
                               .waiting = values.Sum("admission_queued", tenant),
                               .refused = values.Sum("admission_refused", tenant)});
  }
  return numbers;
}

}  // namespace quire::cli
