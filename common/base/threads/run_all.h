// SPDX-License-Identifier: Apache-2.0
//
// RunAll: runs a few tasks that wait for others, and returns when all are done. InThreads runs them
// at the same time, the first one in the caller. InTurn runs one after another, where order must be
// deterministic. Tasks touch no common data without a lock.
#ifndef QUIRE_COMMON_BASE_THREADS_RUN_ALL_H_
#define QUIRE_COMMON_BASE_THREADS_RUN_ALL_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace quire {

using RunAll = std::function<void(const std::vector<std::function<void()>>& tasks)>;

inline void RunInTurn(const std::vector<std::function<void()>>& tasks) {
  for (const auto& task : tasks) task();
}

inline void RunInThreads(const std::vector<std::function<void()>>& tasks) {
  std::vector<std::thread> others;
  for (size_t i = 1; i < tasks.size(); ++i) others.emplace_back(tasks[i]);
  if (!tasks.empty()) tasks.front()();
  for (std::thread& other : others) other.join();
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_RUN_ALL_H_
