// SPDX-License-Identifier: Apache-2.0
//
// LaneClaims: exclusive use of a session's lanes by calls. A call claims all its lanes at once, or
// waits for all of them while it holds none, so there is no deadlock. Calls on different lanes run
// concurrently. A call about the whole session claims every lane: it waits for running calls, and
// later calls wait for it.
//
// A call releases a lane once no byte of its reply can be written any more. With landings, a late
// write of an older recall must not follow one of a newer.
//
// Bounds: at most `max_working` calls have claims, and at most as many wait, since a waiting call
// holds a server thread. Over either bound a call is refused (RESOURCE_EXHAUSTED with a retry
// hint). Thread-safety: all methods may be called concurrently. Ownership: outlives its claims.
#ifndef QUIRE_KVSERVER_SESSION_LANE_CLAIMS_H_
#define QUIRE_KVSERVER_SESSION_LANE_CLAIMS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class LaneClaims {
 public:
  /// The lanes that one call has claimed; released at destruction at the latest.
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
    /// Releases the first `count` lanes, in the order of Take.
    void ReleaseFirst(size_t count);

   private:
    friend class LaneClaims;
    Claim(LaneClaims* claims, std::vector<uint32_t> lanes, bool whole)
        : claims_(claims), lanes_(std::move(lanes)), whole_(whole) {}
    LaneClaims* claims_;
    std::vector<uint32_t> lanes_;  ///< Empty when the whole session is claimed.
    bool whole_;
    size_t released_ = 0;  ///< Number of lanes already released.
  };

  /// Lanes are numbered from 0 to num_lanes - 1.
  LaneClaims(uint32_t num_lanes, uint32_t max_working)
      : max_working_(max_working), busy_(num_lanes) {}

  /// Returns OK while the call is still wanted; otherwise the error to end with.
  using Wanted = std::function<Status()>;

  /// Claims `lanes`, which are distinct. DEADLINE_EXCEEDED when they are not free by `deadline`
  /// (SystemClock()). Polls `wanted` and returns its error.
  [[nodiscard]] StatusOr<Claim> Take(std::vector<uint32_t> lanes, TimePoint deadline,
                                     const Wanted& wanted = nullptr) QUIRE_EXCLUDES(mutex_);
  /// Claims the whole session.
  [[nodiscard]] StatusOr<Claim> TakeAll(TimePoint deadline) QUIRE_EXCLUDES(mutex_);

  /// Number of calls with claims.
  uint32_t working() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return working_;
  }
  uint32_t waiting() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return waiting_;
  }

 private:
  /// Waits until `free` returns true.
  template <typename Free>
  Status Wait(TimePoint deadline, const Wanted& wanted, Free free) QUIRE_REQUIRES(mutex_);
  bool AnyBusy(std::span<const uint32_t> lanes) const QUIRE_REQUIRES(mutex_);
  void Release(std::span<const uint32_t> lanes) QUIRE_EXCLUDES(mutex_);
  void End(const Claim& claim) QUIRE_EXCLUDES(mutex_);

  const uint32_t max_working_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<bool> busy_ QUIRE_GUARDED_BY(mutex_);
  bool whole_ QUIRE_GUARDED_BY(mutex_) = false;  ///< The whole session is claimed, or waited for.
  uint32_t working_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t waiting_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_LANE_CLAIMS_H_
