// SPDX-License-Identifier: Apache-2.0
//
// ServerMemory: where the server end of a test keeps the payload that it sends, and whether all of
// it was let go. The suites of pipes and of transports send from it: plain memory, unless the
// transport lends memory of a kind of its own (lent_memory.h).
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_TESTING_SERVER_MEMORY_H_
#define QUIRE_TRANSPORT_TESTING_SERVER_MEMORY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "quire/clock.h"
#include "quire/payload.h"

namespace quire::testing {

/// Waits, for a minute at most, until `holds()`: what other threads of a transport let go of.
template <typename Condition>
bool Comes(Condition holds) {
  const TimePoint limit = SystemClock().Now() + std::chrono::minutes(1);
  while (!holds() && SystemClock().Now() < limit) std::this_thread::yield();
  return holds();
}

class ServerMemory {
 public:
  virtual ~ServerMemory() = default;

  /// A slice of these bytes, with an owner.
  Slice Keep(std::vector<std::byte> bytes) {
    Slice slice = Place(std::move(bytes));
    MutexLock lock(mutex_);
    last_ = slice.bytes;
    return slice;
  }
  /// Writes over the slice that Keep gave last, which must still be held.
  void OverwriteLast(std::byte value) {
    MutexLock lock(mutex_);
    std::fill_n(const_cast<std::byte*>(last_.data()), last_.size(), value);
  }
  /// For the end of a test: clients, which are still connected or have closed, have dropped all
  /// that they were sent. What was lent to them has come back.
  virtual void ExpectAllGivenBack() {}
  /// And then the server end is gone, too.
  void ExpectAllLetGo() {
    EXPECT_TRUE(Comes([this] { return held_.use_count() == 1; }))
        << held_.use_count() - 1 << " slices of the server are still held";
  }

 protected:
  virtual Slice Place(std::vector<std::byte> bytes) {
    const auto kept = Own(std::move(bytes));
    return Slice{*kept, kept};
  }
  /// An owner of `what`, which counts as held as long as it lives.
  template <typename T>
  std::shared_ptr<T> Own(T what) {
    const auto kept =
        std::make_shared<std::pair<T, std::shared_ptr<const int>>>(std::move(what), held_);
    return std::shared_ptr<T>(kept, &kept->first);
  }

 private:
  const std::shared_ptr<const int> held_ = std::make_shared<const int>(0);
  Mutex mutex_;
  std::span<const std::byte> last_ QUIRE_GUARDED_BY(mutex_);
};

/// What a handler answers from: given to it before its first call, by a thread that the calls'
/// threads may have no order with that a race detector sees (UCX is not instrumented).
class AnswerMemory {
 public:
  void Use(std::shared_ptr<ServerMemory> memory) {
    MutexLock lock(mutex_);
    memory_ = std::move(memory);
  }
  Slice Keep(std::vector<std::byte> bytes) {
    MutexLock lock(mutex_);
    return memory_->Keep(std::move(bytes));
  }

 private:
  Mutex mutex_;
  std::shared_ptr<ServerMemory> memory_ QUIRE_GUARDED_BY(mutex_) = std::make_shared<ServerMemory>();
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_SERVER_MEMORY_H_
