// SPDX-License-Identifier: Apache-2.0
//
// AtOnce: the same work for each of a few nodes, side by side, so that all take as long as the
// slowest. Thread-safety: the work of one number runs on one thread.
#ifndef QUIRE_CLIENT_SPANNING_AT_ONCE_H_
#define QUIRE_CLIENT_SPANNING_AT_ONCE_H_

#include <cstddef>
#include <thread>
#include <vector>

#include "common/base/trace/span.h"
#include "quire/status.h"

namespace quire::internal {

/// Runs `work(i)` for each number below `count`, the first on the caller's thread, all within the
/// caller's current span. Returns when all have ended, with the error of the lowest number that has
/// one.
template <typename Work>
[[nodiscard]] Status AtOnce(size_t count, const Work& work) {
  std::vector<Status> ends(count);
  std::vector<std::thread> others;
  const Span* const around = CurrentSpan();
  for (size_t i = 1; i < count; ++i) {
    others.emplace_back([&, i] {
      const CurrentSpanScope current(around);
      ends[i] = work(i);
    });
  }
  if (count > 0) ends[0] = work(0);
  for (std::thread& other : others) other.join();
  for (Status& end : ends) QUIRE_RETURN_IF_ERROR(std::move(end));
  return OkStatus();
}

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_AT_ONCE_H_
