// SPDX-License-Identifier: Apache-2.0
//
// Executor: runs background work. ThreadPool uses threads. InlineExecutor runs a task in the caller
// at once, where order must be deterministic. Tests have a ManualExecutor (tests/kit).
#ifndef QUIRE_COMMON_BASE_THREADS_EXECUTOR_H_
#define QUIRE_COMMON_BASE_THREADS_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/status.h"

namespace quire {

/// Thread-safety: every implementation is safe for concurrent use.
class Executor {
 public:
  using Task = std::function<void()>;
  virtual ~Executor() = default;
  /// Takes `task` and runs it once. RESOURCE_EXHAUSTED when the queue is full; the task is not
  /// taken then.
  [[nodiscard]] virtual Status Submit(Task task) = 0;
};

class InlineExecutor final : public Executor {
 public:
  Status Submit(Task task) override {
    task();
    return OkStatus();
  }
};

/// A fixed number of threads over one bounded FIFO queue. The destructor runs all queued tasks and
/// joins.
class ThreadPool final : public Executor {
 public:
  struct Options {
    size_t threads = 1;
    size_t queue_limit = 1024;  ///< Pending tasks, not counting running ones.
  };
  explicit ThreadPool(const Options& options);
  ~ThreadPool() override;
  Status Submit(Task task) override;

 private:
  void Run();

  const Options options_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> queue_ QUIRE_GUARDED_BY(mutex_);
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_EXECUTOR_H_
