// SPDX-License-Identifier: Apache-2.0
//
// ReadPace: how long reads take, and when one of them is slow. Thread-safety: all methods may be
// called concurrently.
#ifndef QUIRE_CLIENT_ROUTING_READ_PACE_H_
#define QUIRE_CLIENT_ROUTING_READ_PACE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire::internal {

class ReadPace {
 public:
  /// Answers that must have come before one is slow, and those between two readings of the pace.
  static constexpr size_t kFirst = 32, kBetween = 16;
  /// Latest answers that count.
  static constexpr size_t kWindow = 128;

  /// An answer came after `time`.
  void Add(Duration time) {
    MutexLock lock(mutex_);
    times_[count_++ % kWindow] = time;
    if (count_ < kFirst || count_ % kBetween != 0) return;
    std::array<Duration, kWindow> sorted = times_;
    const size_t size = std::min(count_, kWindow);
    const auto slow = sorted.begin() + static_cast<ptrdiff_t>(size * 95 / 100);
    std::nth_element(sorted.begin(), slow, sorted.begin() + static_cast<ptrdiff_t>(size));
    slow_after_ = *slow;
  }
  /// The 95th percentile of the latest answers; nullopt before there were enough.
  std::optional<Duration> SlowAfter() const {
    MutexLock lock(mutex_);
    return slow_after_;
  }

 private:
  mutable Mutex mutex_;
  std::array<Duration, kWindow> times_ QUIRE_GUARDED_BY(mutex_) = {};
  size_t count_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::optional<Duration> slow_after_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_READ_PACE_H_
