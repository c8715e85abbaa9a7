// SPDX-License-Identifier: Apache-2.0
//
// FakeClock: time that only a test moves. Sleep moves it too, so waiting code runs at once, and a
// test can read how long it intended to wait. Thread-safe.
#ifndef QUIRE_TESTS_KIT_FAKE_CLOCK_H_
#define QUIRE_TESTS_KIT_FAKE_CLOCK_H_

#include <algorithm>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire::testing {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override {
    MutexLock lock(mutex_);
    return TimePoint(elapsed_);
  }
  int64_t UnixMicros() const override {
    return kEpochMicros +
           std::chrono::duration_cast<std::chrono::microseconds>(Now().time_since_epoch()).count();
  }
  void Sleep(Duration duration) override { Advance(std::max(duration, Duration::zero())); }
  void Advance(Duration duration) {
    MutexLock lock(mutex_);
    elapsed_ += duration;
  }

 private:
  static constexpr int64_t kEpochMicros = 1'700'000'000'000'000;
  mutable Mutex mutex_;
  Duration elapsed_ QUIRE_GUARDED_BY(mutex_){0};
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_FAKE_CLOCK_H_
