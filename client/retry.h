// SPDX-License-Identifier: Apache-2.0
//
// Retry policy: when to try again and how long to wait. Pure decisions, no I/O. By default what may
// be repeated is repeated until the method's deadline, which is the caller's.
#ifndef QUIRE_CLIENT_RETRY_H_
#define QUIRE_CLIENT_RETRY_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/answered.h"
#include "common/base/observe/health.h"
#include "common/base/random.h"
#include "quire/clock.h"
#include "quire/retry_options.h"
#include "quire/status.h"

namespace quire::internal {

/// True when a call may be sent again although it may have been carried out.
enum class Repeat : uint8_t {
  kSafe,          ///< Doing it twice is the same as doing it once.
  kOnlyIfRefused  ///< Only what the server refused before it began may be sent again.
};

/// True when another attempt may cure `status`: refusals that carry a retry hint (retry_hint.h),
/// and UNAVAILABLE where a repetition is safe.
bool IsRetriable(const Status& status, Repeat repeat);

/// The wait after attempt `attempt` (from 1) ended with `status`: exponential, and at least as long
/// as the status's retry hint asks.
Duration WaitAfter(const Status& status, const RetryOptions& options, uint32_t attempt,
                   Random& random);

/// Time since which a peer is unreachable, shared by all methods. A caller that waited in one
/// method does not wait as long again in the next. Thread-safety: any thread.
class Reachability {
 public:
  /// `health` is told of Trouble::kStoreUnreached while it lasts; it may be null, and outlives
  /// this.
  explicit Reachability(Health* health = nullptr) : health_(health) {}

  /// Takes in how an attempt ended, now. UNAVAILABLE means that the peer was not reached, or serves
  /// no peer now.
  void Note(const Status& status, TimePoint now) {
    int64_t reached = kReached;
    if (IsUnavailable(status)) {
      missed_since_.compare_exchange_strong(reached, now.time_since_epoch().count());
    } else {
      missed_since_ = kReached;
    }
    if (health_ == nullptr) return;
    if (IsUnavailable(status) && !IsAnswered(status)) {
      health_->Raise(Trouble::kStoreUnreached, Message(status));
    } else {
      health_->Clear(Trouble::kStoreUnreached);
    }
  }
  /// Time since which the peer is unreachable; `now` if the last attempt reached it.
  TimePoint UnreachedSince(TimePoint now) const {
    const int64_t since = missed_since_;
    return since == kReached ? now : TimePoint(TimePoint::duration(since));
  }

 private:
  static constexpr int64_t kReached = INT64_MIN;
  Health* const health_;
  std::atomic<int64_t> missed_since_{kReached};
};

/// The attempts of one method. Thread-safety: none.
class Attempts {
 public:
  /// All outlive it; `deadline` is of the clock that Next is told.
  Attempts(const RetryOptions& options, Random& random, Reachability& peer, TimePoint deadline)
      : options_(options), random_(random), peer_(peer), deadline_(deadline) {}

  /// When the next attempt may be made, after one that ended with `status` now, which another may
  /// cure. When there is to be none, what the method returns: `status` or DeadlineError.
  StatusOr<TimePoint> Next(const Status& status, TimePoint now);
  /// The method's result after an attempt that ended with `status`, which no other may cure. Where
  /// the time was up it has the words of the attempt before, too.
  Status End(const Status& status) const;
  /// The method's result at the deadline: DEADLINE_EXCEEDED with the words of the last attempt. For
  /// a peer that is waited for only so long (unreachable_for) it is UNAVAILABLE.
  Status DeadlineError() const;

 private:
  /// True when the peer was not reached, and is waited for only so long.
  bool IsBounded() const;
  /// The wait before an attempt of which `left` is the time; nullopt when there is none for it.
  std::optional<Duration> WaitWithin(const Status& status, Duration left);

  const RetryOptions& options_;
  Random& random_;
  Reachability& peer_;
  const TimePoint deadline_;
  uint32_t failed_ = 0;
  Status last_;  ///< How the last attempt ended; OK before there was one.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RETRY_H_
