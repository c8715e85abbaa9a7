// SPDX-License-Identifier: Apache-2.0
//
// ManualExecutor: queues tasks and runs them on request, in the calling thread. The destructor runs
// the remaining ones. Thread-safe.
#ifndef QUIRE_TESTS_KIT_MANUAL_EXECUTOR_H_
#define QUIRE_TESTS_KIT_MANUAL_EXECUTOR_H_

#include <deque>
#include <utility>

#include "common/base/threads/executor.h"

namespace quire::testing {

class ManualExecutor final : public Executor {
 public:
  ~ManualExecutor() override {
    while (RunOne()) {
    }
  }
  Status Submit(Task task) override {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(task));
    return OkStatus();
  }
  /// Runs the oldest task; false when there is none.
  bool RunOne() {
    Task task;
    {
      MutexLock lock(mutex_);
      if (queue_.empty()) return false;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
    return true;
  }

 private:
  Mutex mutex_;
  std::deque<Task> queue_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_MANUAL_EXECUTOR_H_
