// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/executor.h"

#include <utility>

#include "common/base/retry_hint.h"

namespace quire {
namespace {

constexpr Duration kRetryWhenFull = std::chrono::milliseconds(100);

}  // namespace

ThreadPool::ThreadPool(const Options& options) : options_(options) {
  for (size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Run(); });
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

Status ThreadPool::Submit(Task task) {
  {
    MutexLock lock(mutex_);
    if (queue_.size() >= options_.queue_limit) {
      return WithRetryAfter(
          ResourceExhausted("executor queue is full (", options_.queue_limit, " tasks)"),
          kRetryWhenFull);
    }
    queue_.push_back(std::move(task));
  }
  wake_.NotifyOne();
  return OkStatus();
}

void ThreadPool::Run() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace quire
