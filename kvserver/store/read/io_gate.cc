// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/read/io_gate.h"

#include <algorithm>
#include <iterator>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

/// Some reads of a healthy device. Shorter intervals do not cure a hung one.
constexpr Duration kRetryAfter = std::chrono::milliseconds(50);

}  // namespace

StatusOr<IoGate::Pass> IoGate::Enter(std::string_view tenant, Priority priority) {
  MutexLock lock(mutex_);
  auto it = shares_.find(tenant);
  if (it == shares_.end()) it = shares_.try_emplace(std::string(tenant)).first;
  Share& share = it->second;
  if (HasRoom(share)) {
    ++inside_;
    ++share.inside;
  } else {
    QUIRE_RETURN_IF_ERROR(Wait(share, priority));
  }
  return Pass(this, &share);
}

bool IoGate::HasRoom(const Share& share) const {
  return inside_ < options_.max_inside && share.inside < options_.max_inside_per_tenant;
}

Status IoGate::MakeRoom(Share& share, Priority priority) {
  const bool of_all = turns_.size() < options_.max_waiting;
  if (of_all && share.waiting.size() < options_.max_waiting_per_tenant) return OkStatus();
  const auto displaced = share.waiting.PopLessUrgent(priority);
  if (!displaced) {
    return Refused(of_all ? "too many calls of the tenant wait for the SSD"
                          : "too many calls wait for the SSD");
  }
  (*displaced)->displaced = true;
  (*displaced)->changed.NotifyOne();
  GiveBackTurn(share);
  return OkStatus();
}

void IoGate::GiveBackTurn(Share& share) {
  // Remove the tenant's last turn, so its other calls are not delayed.
  turns_.erase(std::next(std::find(turns_.rbegin(), turns_.rend(), &share)).base());
}

Status IoGate::Wait(Share& share, Priority priority) {
  QUIRE_RETURN_IF_ERROR(MakeRoom(share, priority));
  Waiter waiter;
  turns_.push_back(&share);
  share.waiting.Push(&waiter, priority);
  const TimePoint end = SystemClock().Now() + options_.max_wait;
  for (Duration left = options_.max_wait;
       !waiter.admitted && !waiter.displaced && left > Duration::zero();
       left = end - SystemClock().Now()) {
    (void)waiter.changed.WaitFor(mutex_, left);  // The loop examines the result.
  }
  if (waiter.admitted) return OkStatus();
  if (waiter.displaced)
    return Refused("a more urgent call of the tenant waits for the SSD instead");
  share.waiting.Erase(&waiter);
  GiveBackTurn(share);
  return Refused("the SSD has not come to the call in time");
}

Status IoGate::Refused(std::string_view reason) {
  ++refused_;
  return WithRetryAfter(ResourceExhausted(reason, ": ", inside_, " read it and ", turns_.size(),
                                          " wait; retry later"),
                        kRetryAfter);
}

void IoGate::AdmitWaiting() {
  for (auto it = turns_.begin(); it != turns_.end() && inside_ < options_.max_inside;) {
    Share& share = **it;
    if (!HasRoom(share)) {
      ++it;
      continue;
    }
    it = turns_.erase(it);
    Waiter& waiter = *share.waiting.Pop();
    ++share.inside;
    ++inside_;
    waiter.admitted = true;
    waiter.changed.NotifyOne();
  }
}

void IoGate::Leave(Share& share) {
  MutexLock lock(mutex_);
  --inside_;
  --share.inside;
  AdmitWaiting();
}

void IoGate::VisitMetrics(MetricsVisitor& visit) const {
  MutexLock lock(mutex_);
  visit.Gauge("ssd_gate_inside", "Calls that read from the SSD.", inside_);
  visit.Gauge("ssd_gate_waiting", "Calls that wait to read from the SSD.", turns_.size());
  visit.Counter("ssd_gate_refused", "Calls that were refused because too many read from the SSD.",
                refused_);
}

}  // namespace quire::kvserver
