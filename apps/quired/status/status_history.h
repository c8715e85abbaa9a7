// SPDX-License-Identifier: Apache-2.0
//
// StatusHistory: what a server did in the last hour, in steps of a few seconds, for the charts of
// its page. A step has what happened in it and what was there at its end. Memory is bounded.
// Thread-safety: all methods may be called concurrently. Errors: none.
#ifndef QUIRE_APPS_QUIRED_STATUS_STATUS_HISTORY_H_
#define QUIRE_APPS_QUIRED_STATUS_STATUS_HISTORY_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/base/observe/latency_histogram.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "nlohmann/json.hpp"
#include "quire/clock.h"

namespace quire::kvserver {

class StatusHistory {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(4);
  static constexpr size_t kSteps = 900;
  static constexpr size_t kColumns = 20;

  using VisitMetrics = std::function<void(MetricsVisitor&)>;
  /// `clock` outlives it.
  StatusHistory(VisitMetrics visit, const Clock* clock)
      : visit_(std::move(visit)), clock_(*clock) {}

  /// Ends a step now.
  void Step() QUIRE_EXCLUDES(mutex_);
  /// Steps after number `after` (0: all that are kept):
  /// {"period_ms", "last": NUMBER, "columns": [...], "rows": [[...], ...]}, oldest first.
  nlohmann::json After(uint64_t after) const QUIRE_EXCLUDES(mutex_);

 private:
  using Row = std::array<int64_t, kColumns>;
  class Reading;

  const VisitMetrics visit_;
  const Clock& clock_;
  mutable Mutex mutex_;
  uint64_t last_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Number of the newest step.
  std::deque<Row> rows_ QUIRE_GUARDED_BY(mutex_);
  /// At the end of the last step; none before the first.
  std::map<std::string, uint64_t> totals_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, LatencyHistogram::Snapshot> times_ QUIRE_GUARDED_BY(mutex_);
  bool has_begun_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_STATUS_STATUS_HISTORY_H_
