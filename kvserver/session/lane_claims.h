// SPDX-License-Identifier: Apache-2.0
//
// LaneClaims: which lanes of a session are in use, each by one call at a time. A call claims all
// its lanes at once or waits for all of them while it holds none, so calls cannot wait for each
// other in a circle; calls on different lanes do not meet. A call about the whole session claims
// every lane: it waits for those that work, and those that come after it wait for it.
//
// A call gives a lane back when nothing of its reply can be written any more: with landings, a late
// write of an older recall must not follow one of a newer.
//
// Bounds: at most `max_working` calls have claims, and at most as many wait as work, for a call
// that waits holds a thread of the server. Over either a call is refused (RESOURCE_EXHAUSTED with a
// retry hint).
// Thread-safety: all methods may be called concurrently. Ownership: outlives its claims.
#ifndef QUIRE_KVSERVER_SESSION_LANE_CLAIMS_H_
#define QUIRE_KVSERVER_SESSION_LANE_CLAIMS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class LaneClaims {
 public:
  /// What one call has claimed; given back at destruction at the latest.
  class Claim {
   public:
    Claim(Claim&& other) noexcept
        : claims_(std::exchange(other.claims_, nullptr)),
          lanes_(std::move(other.lanes_)),
          whole_(other.whole_),
          released_(other.released_) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (claims_ != nullptr) claims_->End(*this);
    }
    /// Gives back the first `count` lanes, in the order in which they were named.
    void ReleaseFirst(size_t count);

   private:
    friend class LaneClaims;
    Claim(LaneClaims* claims, std::vector<uint32_t> lanes, bool whole)
        : claims_(claims), lanes_(std::move(lanes)), whole_(whole) {}
    LaneClaims* claims_;
    std::vector<uint32_t> lanes_;  ///< Empty when the whole session is claimed.
    bool whole_;
    size_t released_ = 0;  ///< So many of them have been given back.
  };

  /// Lanes are numbered from 0 to num_lanes - 1.
  LaneClaims(uint32_t num_lanes, uint32_t max_working)
      : max_working_(max_working), busy_(num_lanes) {}

  /// Says whether somebody still waits for the call; what to end with when not.
  using Wanted = std::function<Status()>;

  /// Claims `lanes`, which are distinct. DEADLINE_EXCEEDED when they did not become free before
  /// `deadline` (SystemClock()); what `wanted` says, asked now and then, when that is not OK.
  [[nodiscard]] StatusOr<Claim> Take(std::vector<uint32_t> lanes, TimePoint deadline,
                                     const Wanted& wanted = nullptr) QUIRE_EXCLUDES(mutex_);
  /// Claims the whole session.
  [[nodiscard]] StatusOr<Claim> TakeAll(TimePoint deadline) QUIRE_EXCLUDES(mutex_);

  /// Calls that have claims.
  uint32_t working() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return working_;
  }
  uint32_t waiting() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return waiting_;
  }

 private:
  /// Waits until `free` says so.
  template <typename Free>
  Status Wait(TimePoint deadline, const Wanted& wanted, Free free) QUIRE_REQUIRES(mutex_);
  bool AnyBusy(std::span<const uint32_t> lanes) const QUIRE_REQUIRES(mutex_);
  void Release(std::span<const uint32_t> lanes) QUIRE_EXCLUDES(mutex_);
  void End(const Claim& claim) QUIRE_EXCLUDES(mutex_);

  const uint32_t max_working_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<bool> busy_ QUIRE_GUARDED_BY(mutex_);
  bool whole_ QUIRE_GUARDED_BY(mutex_) = false;  ///< The whole session is claimed, or about to be.
  uint32_t working_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t waiting_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_LANE_CLAIMS_H_
