// SPDX-License-Identifier: Apache-2.0
//
// Clock: the only source of time, and the only way to sleep. Tests pass a FakeClock (tests/kit).
// Thread-safety: every implementation is safe for concurrent use.
#ifndef QUIRE_COMMON_BASE_CLOCK_H_
#define QUIRE_COMMON_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace quire {

using Duration = std::chrono::nanoseconds;
/// Upper bound of one wait. Deadlines may be endless; waits and timeouts on the wire are not.
constexpr Duration kLongestWait = std::chrono::minutes(1);
/// A point on the monotonic clock; only differences mean anything.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic time.
  virtual TimePoint Now() const = 0;
  /// Wall-clock time, microseconds since the Unix epoch; may jump.
  virtual int64_t UnixMicros() const = 0;
  /// Blocks the calling thread for `duration`.
  virtual void Sleep(Duration duration) = 0;
};

/// The machine's clock. Never destroyed.
Clock& SystemClock();

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_CLOCK_H_
