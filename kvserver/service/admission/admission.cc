// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/admission/admission.h"

#include <algorithm>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

constexpr Duration kShortestRetry = std::chrono::milliseconds(10);
constexpr Duration kLongestRetry = std::chrono::seconds(2);
/// Weight of the newest call in the moving average, as a divisor.
constexpr int64_t kAverageOver = 16;
/// Interval at which a waiting call checks for cancellation. No behaviour depends on it.
constexpr Duration kCancelPoll = std::chrono::milliseconds(20);
/// A deadline may be endless; waits are not.
constexpr Duration kLongestTurn = std::chrono::minutes(1);

}  // namespace

StatusOr<Admission::Pass> Admission::Enter(std::string_view tenant, uint64_t cost,
                                           TimePoint deadline, Priority priority,
                                           const CancelFlag* cancelled) {
  const TimePoint arrival = SystemClock().Now();
  TimePoint start = arrival;
  MutexLock lock(mutex_);
  (void)TotalsOf(tenant);  // Visible from now on, also in the metrics.
  if (running_ < options_.max_running) {
    ++running_;
  } else {
    QUIRE_RETURN_IF_ERROR(Wait(tenant, cost, deadline, priority, cancelled));
    start = SystemClock().Now();
  }
  waits_.Record(start - arrival);
  return Pass(this, tenant, start);
}

Admission::Totals& Admission::TotalsOf(std::string_view tenant) {
  const auto it = totals_.find(tenant);
  return it != totals_.end() ? it->second : totals_[std::string(tenant)];
}

Status Admission::Wait(std::string_view tenant, uint64_t cost, TimePoint deadline,
                       Priority priority, const CancelFlag* cancelled) {
  const auto is_cancelled = [&] { return cancelled != nullptr && cancelled->IsSet(); };
  const Duration longest = cancelled == nullptr ? kLongestTurn : kCancelPoll;
  if (!MakeRoom(tenant, priority)) return Refused(tenant);
  const FairQueue::Ticket ticket = next_ticket_++;
  Waiter waiter;
  queue_.Push(tenant, ticket, cost, priority);
  waiters_[ticket] = &waiter;
  for (TimePoint now = SystemClock().Now();
       !waiter.admitted && !waiter.displaced && now < deadline && !is_cancelled();
       now = SystemClock().Now()) {
    // The loop examines the result.
    (void)waiter.changed.WaitFor(mutex_, std::min<Duration>(deadline - now, longest));
  }
  if (waiter.admitted) return OkStatus();
  if (waiter.displaced) return Refused(tenant);
  queue_.Remove(tenant, ticket);
  waiters_.erase(ticket);
  if (is_cancelled()) {
    return Status(StatusCode::kCancelled, "the call was cancelled while it waited to run");
  }
  ++TotalsOf(tenant).expired;
  return DeadlineExceeded("the deadline passed while the call waited for ", options_.max_running,
                          " others to ", options_.door);
}

bool Admission::MakeRoom(std::string_view tenant, Priority priority) {
  if (queue_.HasRoom(tenant)) return true;
  const auto displaced = queue_.Displace(tenant, priority);
  if (!displaced) return false;
  const auto it = waiters_.find(*displaced);
  it->second->displaced = true;
  it->second->changed.NotifyOne();
  waiters_.erase(it);
  return true;
}

Status Admission::Refused(std::string_view tenant) {
  ++TotalsOf(tenant).refused;
  return WithRetryAfter(
      ResourceExhausted("tenant ", tenant, " has ", queue_.size(tenant), " calls waiting to ",
                        options_.door, ", which is the limit; retry later"),
      DrainTime(tenant));
}

Duration Admission::DrainTime(std::string_view tenant) const {
  // Tenants take turns, so the other tenants' calls run in between.
  const auto calls = static_cast<int64_t>(queue_.size(tenant) * queue_.tenants() + 1);
  return std::clamp<Duration>(mean_run_ * calls / options_.max_running, kShortestRetry,
                              kLongestRetry);
}

void Admission::Leave(std::string_view tenant, TimePoint start, uint64_t extra_cost) {
  const Duration run = SystemClock().Now() - start;
  MutexLock lock(mutex_);
  mean_run_ += (run - mean_run_) / kAverageOver;
  if (extra_cost > 0) queue_.Charge(tenant, extra_cost);
  FreePlace();
}

void Admission::StepOut() {
  MutexLock lock(mutex_);
  FreePlace();
}

void Admission::StepIn() {
  MutexLock lock(mutex_);
  ++running_;
}

void Admission::FreePlace() {
  // Returning calls may exceed the limit; then there is no place to give.
  const auto next = running_ > options_.max_running ? std::nullopt : queue_.Pop();
  if (!next) {
    --running_;
    return;
  }
  // The place goes straight to the next call, so that no new one takes it.
  const auto it = waiters_.find(*next);
  it->second->admitted = true;
  it->second->changed.NotifyOne();
  waiters_.erase(it);
}

void Admission::VisitMetrics(MetricsVisitor& visit) const {
  const std::string_view door = options_.door;
  visit.Histogram("admission_wait_seconds",
                  "Time that calls waited before they ran; 0 for those that did not.", waits_,
                  {{"door", door}});
  MutexLock lock(mutex_);
  visit.Gauge("admission_running", "Calls that run.", running_, {{"door", door}});
  for (const auto& [tenant, totals] : totals_) {
    visit.Gauge("admission_queued", "Calls that wait to run.", queue_.size(tenant),
                {{"door", door}, {"tenant", tenant}});
    visit.Counter("admission_refused", "Calls refused because their tenant had too many waiting.",
                  totals.refused, {{"door", door}, {"tenant", tenant}});
    visit.Counter("admission_expired", "Calls whose deadline passed while they waited.",
                  totals.expired, {{"door", door}, {"tenant", tenant}});
  }
}

}  // namespace quire::kvserver
