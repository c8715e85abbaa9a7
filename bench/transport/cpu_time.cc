// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/cpu_time.h"

#include <time.h>

#include <chrono>

namespace quire::bench {
namespace {

StatusOr<Duration> TimeOf(clockid_t clock) {
  timespec time = {};
  if (clock_gettime(clock, &time) != 0) return Unavailable("a process has ended");
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

StatusOr<Duration> CpuTime(std::span<const pid_t> others) {
  QUIRE_ASSIGN_OR_RETURN(Duration sum, TimeOf(CLOCK_PROCESS_CPUTIME_ID));
  for (const pid_t process : others) {
    clockid_t clock = {};
    if (clock_getcpuclockid(process, &clock) != 0) {
      return Unavailable("process ", process, " has ended");
    }
    QUIRE_ASSIGN_OR_RETURN(const Duration time, TimeOf(clock));
    sum += time;
  }
  return sum;
}

}  // namespace quire::bench
