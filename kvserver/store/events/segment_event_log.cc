// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/events/segment_event_log.h"

#include <algorithm>
#include <utility>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

/// How often a waiting call looks whether it is still wanted.
constexpr Duration kFollowCheck = std::chrono::milliseconds(100);
constexpr Duration kFollowRetry = std::chrono::seconds(1);

/// Counts a waiting call while it lives.
class FollowerCount {
 public:
  explicit FollowerCount(std::atomic<uint32_t>& count) : count_(count), before_(count++) {}
  ~FollowerCount() { --count_; }
  FollowerCount(const FollowerCount&) = delete;
  FollowerCount& operator=(const FollowerCount&) = delete;
  uint32_t before() const { return before_; }

 private:
  std::atomic<uint32_t>& count_;
  const uint32_t before_;
};

}  // namespace

void SegmentEventLog::Add(std::string_view tenant, SegmentEvent event) {
  event.time_unix_micros = clock_->UnixMicros();
  added_.Add();
  {
    MutexLock lock(mutex_);
    auto ring = rings_.find(tenant);
    if (ring == rings_.end()) {
      ring = rings_.emplace(std::string(tenant), Ring{.events = {}, .next = first_position_}).first;
    }
    event.position = ring->second.next++;
    ring->second.events.push_back(event);
    if (ring->second.events.size() > most_events_) ring->second.events.pop_front();
  }
  if (waiting_.load() > 0) grew_.NotifyAll();
}

uint64_t SegmentEventLog::NextOf(std::string_view tenant) const {
  const auto ring = rings_.find(tenant);
  return ring == rings_.end() ? first_position_ : ring->second.next;
}

SegmentEvents SegmentEventLog::Read(const Query& query) const {
  MutexLock lock(mutex_);
  const uint64_t newest = NextOf(query.tenant) - 1;
  if (query.from_now) return {.events = {}, .position = newest};
  const auto ring = rings_.find(query.tenant);
  const uint64_t oldest = newest + 1 - (ring == rings_.end() ? 0 : ring->second.events.size());
  if (query.after + 1 < oldest || query.after > newest) {
    gaps_.Add();
    SegmentEvent gap{.position = newest,
                     .time_unix_micros = clock_->UnixMicros(),
                     .kind = SegmentEventKind::kGap};
    return {.events = {gap}, .position = newest};
  }
  SegmentEvents read{.events = {}, .position = query.after};
  if (ring == rings_.end()) return read;
  const std::deque<SegmentEvent>& events = ring->second.events;
  const uint64_t first = query.after + 1 - oldest;
  const uint64_t end = std::min<uint64_t>(first + query.max_events, events.size());
  read.events.assign(events.begin() + static_cast<std::ptrdiff_t>(first),
                     events.begin() + static_cast<std::ptrdiff_t>(end));
  if (!read.events.empty()) read.position = read.events.back().position;
  return read;
}

StatusOr<SegmentEvents> SegmentEventLog::Follow(Query query, TimePoint deadline,
                                                const std::function<bool()>& stop) {
  SegmentEvents read = Read(query);
  if (!read.events.empty() || SystemClock().Now() >= deadline) return read;
  const FollowerCount waiting(waiting_);
  if (waiting.before() >= kMostWaiting) {
    return WithRetryAfter(ResourceExhausted(kMostWaiting, " calls wait for events already"),
                          kFollowRetry);
  }
  query.from_now = false;
  while (!stop()) {
    query.after = read.position;
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) break;
    {
      MutexLock lock(mutex_);
      if (NextOf(query.tenant) == query.after + 1) {
        grew_.WaitFor(mutex_, std::min(left, kFollowCheck));
      }
    }
    read = Read(query);
    if (!read.events.empty()) break;
  }
  return read;
}

void SegmentEventLog::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("segment_events", "Events of segments, for whoever follows them.", added_.Get());
  visit.Counter("segment_event_gaps",
                "Followers that were told of a gap: they came too late, or for the first time.",
                gaps_.Get());
  visit.Gauge("segment_followers", "Calls that wait for an event of a segment.",
              waiting_.load(std::memory_order_relaxed));
}

}  // namespace quire::kvserver
