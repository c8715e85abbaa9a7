// SPDX-License-Identifier: Apache-2.0
#include "quire/clock.h"

#include <thread>

namespace quire {
namespace {

class RealClock final : public Clock {
 public:
  TimePoint Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }
  int64_t UnixMicros() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void Sleep(Duration duration) override { std::this_thread::sleep_for(duration); }
};

}  // namespace

Clock& SystemClock() {
  static RealClock& clock = *new RealClock;
  return clock;
}

}  // namespace quire
