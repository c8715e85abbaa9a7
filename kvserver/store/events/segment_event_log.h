// SPDX-License-Identifier: Apache-2.0
//
// SegmentEventLog: the last events of each tenant's segments, in memory. A reader asks from a
// position on, so a slow one costs nothing and holds nothing up. One whose position the log has no
// more, or that has none, gets a gap (SegmentEventKind::kGap) and goes on from the newest event.
//
// Positions of a tenant have no gaps while the log lives. A later log begins beyond an earlier
// one's positions, so a reader of that one gets a gap.
//
// Thread-safety: all methods may be called concurrently. Locks: its own, below all others. Memory
// is bounded by the tenants and `most_events` of each.
#ifndef QUIRE_KVSERVER_STORE_EVENTS_SEGMENT_EVENT_LOG_H_
#define QUIRE_KVSERVER_STORE_EVENTS_SEGMENT_EVENT_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/segment_events.h"
#include "quire/status.h"

namespace quire::kvserver {

class SegmentEventLog {
 public:
  static constexpr size_t kMostEvents = 65536;
  static constexpr uint32_t kMostWaiting = 32;

  /// `clock` outlives the log. Positions begin at `first_position`, at least 1.
  SegmentEventLog(Clock* clock, uint64_t first_position, size_t most_events = kMostEvents)
      : clock_(clock), first_position_(first_position), most_events_(most_events) {}

  /// Adds an event of `tenant`, whose position and time are set here. Does no I/O.
  void Add(std::string_view tenant, SegmentEvent event) QUIRE_EXCLUDES(mutex_);

  struct Query {
    std::string_view tenant;
    uint64_t after = 0;  ///< 0: a gap first.
    bool from_now = false;
    uint32_t max_events = 100;
  };
  [[nodiscard]] SegmentEvents Read(const Query& query) const QUIRE_EXCLUDES(mutex_);
  /// The same, waiting for a first event until `deadline` (SystemClock) or `stop()`.
  /// RESOURCE_EXHAUSTED when kMostWaiting calls wait.
  [[nodiscard]] StatusOr<SegmentEvents> Follow(Query query, TimePoint deadline,
                                               const std::function<bool()>& stop)
      QUIRE_EXCLUDES(mutex_);

  /// segment_events, segment_event_gaps, segment_followers.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct Ring {
    std::deque<SegmentEvent> events;
    uint64_t next = 0;  ///< Position of the next event.
  };
  uint64_t NextOf(std::string_view tenant) const QUIRE_REQUIRES(mutex_);

  Clock* const clock_;
  const uint64_t first_position_;
  const size_t most_events_;
  mutable Mutex mutex_;
  CondVar grew_;
  std::map<std::string, Ring, std::less<>> rings_ QUIRE_GUARDED_BY(mutex_);
  std::atomic<uint32_t> waiting_{0};
  Counter added_;
  mutable Counter gaps_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_EVENTS_SEGMENT_EVENT_LOG_H_
