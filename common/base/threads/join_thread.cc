// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/join_thread.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"

namespace quire {
namespace {

/// Sets its flag when its thread ends.
struct EndMark {
  ~EndMark() {
    if (ended != nullptr) ended->store(true, std::memory_order_release);
  }
  std::shared_ptr<std::atomic<bool>> ended;
};

/// Threads that called JoinThread for themselves.
class EndingThreads {
 public:
  ~EndingThreads() {
    for (Ending& ending : threads_) {
      if (ending.thread.get_id() == std::this_thread::get_id()) {
        ending.thread.detach();  // It called exit, and never returns.
      } else {
        ending.thread.join();
      }
    }
  }

  void Add(std::thread self) {
    thread_local EndMark mark;
    mark.ended = std::make_shared<std::atomic<bool>>(false);
    MutexLock lock(mutex_);
    std::erase_if(threads_, [](Ending& ending) {
      if (!ending.ended->load(std::memory_order_acquire)) return false;
      ending.thread.join();
      return true;
    });
    threads_.push_back({std::move(self), mark.ended});
  }

 private:
  struct Ending {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> ended;
  };

  Mutex mutex_;
  std::vector<Ending> threads_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace

void JoinThread(std::thread& thread) {
  if (thread.get_id() != std::this_thread::get_id()) return thread.join();
  static EndingThreads ending;
  ending.Add(std::move(thread));
}

}  // namespace quire
