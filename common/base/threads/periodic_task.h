// SPDX-License-Identifier: Apache-2.0
//
// PeriodicTask: one thread that runs a task at once and then every `period` of real time, until
// destruction. A task longer than the period delays the next one; no run is made up for.
// Thread-safety: the task runs in the object's own thread, never twice at a time. Ownership:
// everything the task uses outlives the object. The destructor waits for a running task.
#ifndef QUIRE_COMMON_BASE_THREADS_PERIODIC_TASK_H_
#define QUIRE_COMMON_BASE_THREADS_PERIODIC_TASK_H_

#include <functional>
#include <thread>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire {

class PeriodicTask {
 public:
  PeriodicTask(Duration period, std::function<void()> task);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

  /// Ends the present wait. A run begins after this call.
  void RunSoon() QUIRE_EXCLUDES(mutex_);

 private:
  void Run();
  /// Waits for the end of the period, or RunSoon. Returns false at destruction.
  bool WaitForNext() QUIRE_EXCLUDES(mutex_);

  const Duration period_;
  const std::function<void()> task_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  bool soon_ QUIRE_GUARDED_BY(mutex_) = false;  ///< The next run does not wait for its time.
  std::thread thread_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_PERIODIC_TASK_H_
