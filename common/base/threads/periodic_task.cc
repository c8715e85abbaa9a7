// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/periodic_task.h"

#include <utility>

namespace quire {

PeriodicTask::PeriodicTask(Duration period, std::function<void()> task)
    : period_(period), task_(std::move(task)), thread_([this] { Run(); }) {}

PeriodicTask::~PeriodicTask() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void PeriodicTask::RunSoon() {
  {
    MutexLock lock(mutex_);
    soon_ = true;
  }
  changed_.NotifyAll();
}

void PeriodicTask::Run() {
  do {
    task_();
  } while (WaitForNext());
}

bool PeriodicTask::WaitForNext() {
  const TimePoint next = SystemClock().Now() + period_;
  MutexLock lock(mutex_);
  while (!stopping_) {
    const Duration left = next - SystemClock().Now();
    if (left <= Duration::zero() || soon_) {
      soon_ = false;
      return true;
    }
    changed_.WaitFor(mutex_, left);
  }
  return false;
}

}  // namespace quire
