// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/call_threads.h"

#include <chrono>
#include <utility>

#include "common/base/retry_hint.h"

namespace quire {
namespace {

constexpr std::chrono::milliseconds kRetryThreadAfter{10};

}  // namespace

CallThreads::~CallThreads() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    wake_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

bool CallThreads::HasThread(uint32_t running, Priority priority) const {
  const auto share = [&](uint32_t threads) {
    return priority == Priority::kPrefetch ? threads - threads / 4 : threads;
  };
  return busy_ < share(max_threads_) && running < share(max_threads_ / 2);
}

Status CallThreads::Run(std::string_view tenant, Task task, Priority priority) {
  MutexLock lock(mutex_);
  const auto it = of_tenants_.find(tenant);
  const uint32_t running = it == of_tenants_.end() ? 0 : it->second;
  if (!HasThread(running, priority)) {
    return WithRetryAfter(
        ResourceExhausted("the server runs ", busy_, " calls, ", running, " of them of tenant ",
                          tenant, ", which is the limit; retry later"),
        kRetryThreadAfter);
  }
  ++of_tenants_[std::string(tenant)];
  jobs_.Push({std::string(tenant), std::move(task)}, priority);
  if (++busy_ > threads_.size()) threads_.emplace_back([this] { Loop(); });
  wake_.NotifyOne();
  return OkStatus();
}

void CallThreads::Loop() {
  for (;;) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) wake_.Wait(mutex_);
      if (jobs_.empty()) return;
      job = jobs_.Pop();
    }
    job.task();
    job.task = nullptr;  // Releases captured objects before the place is free.
    MutexLock lock(mutex_);
    --busy_;
    const auto it = of_tenants_.find(job.tenant);
    if (--it->second == 0) of_tenants_.erase(it);
  }
}

}  // namespace quire
