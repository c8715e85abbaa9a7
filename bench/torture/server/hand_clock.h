// SPDX-License-Identifier: Apache-2.0
//
// HandClock: a clock that a run moves by hand, so that documents expire at known moments. It
// continues from its time when a store is opened again. Thread-safe.
#ifndef QUIRE_BENCH_TORTURE_SERVER_HAND_CLOCK_H_
#define QUIRE_BENCH_TORTURE_SERVER_HAND_CLOCK_H_

#include <algorithm>
#include <atomic>

#include "quire/clock.h"

namespace quire::torture {

class HandClock final : public Clock {
 public:
  static constexpr int64_t kStartMicros = 1'700'000'000'000'000;

  explicit HandClock(int64_t unix_micros = kStartMicros) : unix_micros_(unix_micros) {}
  TimePoint Now() const override { return TimePoint(std::chrono::microseconds(UnixMicros())); }
  int64_t UnixMicros() const override { return unix_micros_.load(); }
  /// Returns at once and does not move the clock.
  void Sleep(Duration) override {}
  /// Moves on to `unix_micros`, unless it is later already.
  void MoveTo(int64_t unix_micros) {
    unix_micros_.store(std::max(unix_micros_.load(), unix_micros));
  }

 private:
  std::atomic<int64_t> unix_micros_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_HAND_CLOCK_H_
