// SPDX-License-Identifier: Apache-2.0
//
// CallThreads: the threads that run the calls of connections. Threads start on demand and stay. A
// call never waits here for another: admission, which follows, orders waiting calls. No tenant has
// more than half of the threads. Prefetches take at most three quarters of their share, so that a
// correction finds a thread when they are refused. Among calls whose thread is waking up, urgent
// ones go first (urgent_queue.h).
// Thread-safety: all methods may be called concurrently. The destructor waits for running tasks.
#ifndef QUIRE_TRANSPORT_FRAMES_CALL_THREADS_H_
#define QUIRE_TRANSPORT_FRAMES_CALL_THREADS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/threads/mutex.h"
#include "common/base/threads/urgent_queue.h"
#include "quire/priority.h"
#include "quire/status.h"

namespace quire {

class CallThreads {
 public:
  using Task = std::function<void()>;
  /// `max_threads` is at least 2.
  explicit CallThreads(uint32_t max_threads) : max_threads_(max_threads) {}
  ~CallThreads();

  /// Runs `task` at once. RESOURCE_EXHAUSTED with a retry hint if no thread is free for `tenant`;
  /// the task is then not taken.
  [[nodiscard]] Status Run(std::string_view tenant, Task task,
                           Priority priority = Priority::kNormal);

 private:
  struct Job {
    std::string tenant;
    Task task;
  };
  /// True if a call gets a thread when its tenant already runs `running`.
  bool HasThread(uint32_t running, Priority priority) const QUIRE_REQUIRES(mutex_);
  void Loop();

  const uint32_t max_threads_;
  Mutex mutex_;
  CondVar wake_;
  UrgentQueue<Job> jobs_ QUIRE_GUARDED_BY(mutex_);  ///< Each has an idle or a new thread.
  std::map<std::string, uint32_t, std::less<>> of_tenants_ QUIRE_GUARDED_BY(mutex_);
  uint32_t busy_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Jobs taken and not finished.
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_CALL_THREADS_H_
