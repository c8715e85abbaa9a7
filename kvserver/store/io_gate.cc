// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/io_gate.h"

#include <algorithm>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

/// Some reads of a healthy device; one that hangs is not cured by asking more often.
constexpr Duration kRetryAfter = std::chrono::milliseconds(50);

}  // namespace

StatusOr<IoGate::Pass> IoGate::Enter(std::string_view tenant) {
  MutexLock lock(mutex_);
  auto it = shares_.find(tenant);
  if (it == shares_.end()) it = shares_.emplace(std::string(tenant), Share{}).first;
  Share& share = it->second;
  if (HasRoom(share)) {
    ++inside_;
    ++share.inside;
  } else {
    QUIRE_RETURN_IF_ERROR(Wait(share));
  }
  return Pass(this, &share);
}

bool IoGate::HasRoom(const Share& share) const {
  return inside_ < options_.max_inside && share.inside < options_.max_inside_per_tenant;
}

Status IoGate::Wait(Share& share) {
  if (waiting_.size() >= options_.max_waiting) return Refused("too many calls wait for the SSD");
  if (share.waiting >= options_.max_waiting_per_tenant) {
    return Refused("too many calls of the tenant wait for the SSD");
  }
  Waiter waiter;
  waiter.share = &share;
  const auto place = waiting_.insert(waiting_.end(), &waiter);
  ++share.waiting;
  const TimePoint end = SystemClock().Now() + options_.max_wait;
  for (Duration left = options_.max_wait; !waiter.admitted && left > Duration::zero();
       left = end - SystemClock().Now()) {
    (void)waiter.changed.WaitFor(mutex_, left);  // The loop looks at what became of it.
  }
  if (waiter.admitted) return OkStatus();
  waiting_.erase(place);
  --share.waiting;
  return Refused("the SSD has not come to the call in time");
}

Status IoGate::Refused(std::string_view reason) {
  ++refused_;
  return WithRetryAfter(ResourceExhausted(reason, ": ", inside_, " read it and ", waiting_.size(),
                                          " wait; retry later"),
                        kRetryAfter);
}

void IoGate::AdmitWaiting() {
  for (auto it = waiting_.begin(); it != waiting_.end() && inside_ < options_.max_inside;) {
    Waiter& waiter = **it;
    if (!HasRoom(*waiter.share)) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    --waiter.share->waiting;
    ++waiter.share->inside;
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
  visit.Gauge("ssd_gate_waiting", "Calls that wait to read from the SSD.", waiting_.size());
  visit.Counter("ssd_gate_refused", "Calls that were refused because too many read from the SSD.",
                refused_);
}

}  // namespace quire::kvserver
