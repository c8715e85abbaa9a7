// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/lane_claims.h"

#include <algorithm>
#include <chrono>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

constexpr Duration kRetryAfter = std::chrono::milliseconds(20);
/// Interval at which a waiting call checks if it is still wanted. No behaviour depends on it.
constexpr Duration kWantedPoll = std::chrono::milliseconds(20);
/// Bound of one wait, so that sums of times do not overflow. A longer wait is repeated.
constexpr Duration kLongestTurn = std::chrono::minutes(1);

Status Refusal(uint32_t working, uint32_t waiting) {
  return WithRetryAfter(ResourceExhausted("the session has ", working, " calls at work and ",
                                          waiting, " waiting for their lanes; retry later"),
                        kRetryAfter);
}

}  // namespace

void LaneClaims::Claim::ReleaseFirst(size_t count) {
  if (count <= released_) return;
  claims_->Release(std::span(lanes_).subspan(released_, count - released_));
  released_ = count;
}

StatusOr<LaneClaims::Claim> LaneClaims::Take(std::vector<uint32_t> lanes, TimePoint deadline,
                                             const Wanted& wanted) {
  MutexLock lock(mutex_);
  const auto free = [&]() QUIRE_REQUIRES(mutex_) { return !whole_ && !AnyBusy(lanes); };
  QUIRE_RETURN_IF_ERROR(Wait(deadline, wanted, free));
  if (working_ >= max_working_) return Refusal(working_, waiting_);
  ++working_;
  for (const uint32_t lane : lanes) busy_[lane] = true;
  return Claim(this, std::move(lanes), /*whole=*/false);
}

StatusOr<LaneClaims::Claim> LaneClaims::TakeAll(TimePoint deadline) {
  MutexLock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(Wait(deadline, nullptr, [&]() QUIRE_REQUIRES(mutex_) { return !whole_; }));
  whole_ = true;  // No other call starts from here on.
  const Status waited =
      Wait(deadline, nullptr, [&]() QUIRE_REQUIRES(mutex_) { return working_ == 0; });
  if (!waited.ok()) {
    whole_ = false;
    changed_.NotifyAll();
    return waited;
  }
  working_ = 1;
  return Claim(this, {}, /*whole=*/true);
}

template <typename Free>
Status LaneClaims::Wait(TimePoint deadline, const Wanted& wanted, Free free) {
  if (free()) return OkStatus();
  if (waiting_ >= working_) return Refusal(working_, waiting_);
  ++waiting_;
  const Duration longest = wanted == nullptr ? kLongestTurn : kWantedPoll;
  Duration left{1};
  Status still = OkStatus();
  while (!free() && still.ok() && (left = deadline - SystemClock().Now()) > Duration::zero()) {
    changed_.WaitFor(mutex_, std::min(left, longest));
    if (wanted != nullptr) still = wanted();
  }
  --waiting_;
  QUIRE_RETURN_IF_ERROR(still);
  if (left > Duration::zero()) return OkStatus();
  return DeadlineExceeded("the session's lanes were in use by earlier calls until the deadline");
}

bool LaneClaims::AnyBusy(std::span<const uint32_t> lanes) const {
  for (const uint32_t lane : lanes) {
    if (busy_[lane]) return true;
  }
  return false;
}

void LaneClaims::Release(std::span<const uint32_t> lanes) {
  MutexLock lock(mutex_);
  for (const uint32_t lane : lanes) busy_[lane] = false;
  changed_.NotifyAll();
}

void LaneClaims::End(const Claim& claim) {
  MutexLock lock(mutex_);
  for (const uint32_t lane : std::span(claim.lanes_).subspan(claim.released_)) busy_[lane] = false;
  if (claim.whole_) whole_ = false;
  --working_;
  changed_.NotifyAll();
}

}  // namespace quire::kvserver
