// SPDX-License-Identifier: Apache-2.0
//
// Await: waits for a state of processes that nothing announces, by looking again and again.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_AWAIT_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_AWAIT_H_

#include <chrono>
#include <functional>
#include <string>

#include "quire/clock.h"
#include "quire/status.h"

namespace quire::torture {

/// Waits until `holds` returns true. UNAVAILABLE when `what` does not happen in a minute.
[[nodiscard]] inline Status Await(const std::string& what, const std::function<bool()>& holds) {
  constexpr Duration kPatience = std::chrono::seconds(60);
  constexpr Duration kPause = std::chrono::milliseconds(50);
  const TimePoint deadline = SystemClock().Now() + kPatience;
  while (!holds()) {
    if (SystemClock().Now() > deadline) return Unavailable(what, " did not happen in a minute");
    SystemClock().Sleep(kPause);
  }
  return OkStatus();
}

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_AWAIT_H_
