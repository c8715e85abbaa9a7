// SPDX-License-Identifier: Apache-2.0
//
// FakeClock: time that stands still until a test moves it. Sleep moves it, so code that waits runs
// at once and a test can read how long it wanted to wait. Thread-safe.
#ifndef QUIRE_TESTS_KIT_FAKE_CLOCK_H_
#define QUIRE_TESTS_KIT_FAKE_CLOCK_H_

#include <algorithm>

#include "common/base/mutex.h"
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
