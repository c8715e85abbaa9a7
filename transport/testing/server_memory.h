// SPDX-License-Identifier: Apache-2.0
//
// ServerMemory: the memory that the server end of a test sends payload from, and a check that all
// of it is released. It is plain memory, unless the transport lends memory of its own kind
// (lent_memory.h).
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

#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/payload.h"
#include "tests/kit/look_again.h"

namespace quire::testing {

/// Waits up to a minute until `holds()`, for releases by other threads of a transport.
template <typename Condition>
bool BecomesTrue(Condition holds) {
  const TimePoint limit = SystemClock().Now() + std::chrono::minutes(1);
  while (!holds() && SystemClock().Now() < limit) WaitToLookAgain();
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
  /// Overwrites the slice that Keep returned last, which must still be held.
  void OverwriteLast(std::byte value) {
    MutexLock lock(mutex_);
    std::fill_n(const_cast<std::byte*>(last_.data()), last_.size(), value);
  }
  /// Checks at the end of a test that all lent payload has come back. The clients, connected or
  /// closed, have dropped all they were sent.
  virtual void ExpectAllReturned() {}
  /// Checks the same after the server end is destroyed.
  void ExpectAllReleased() {
    EXPECT_TRUE(BecomesTrue([this] { return held_.use_count() == 1; }))
        << held_.use_count() - 1 << " slices of the server are still held";
  }

 protected:
  virtual Slice Place(std::vector<std::byte> bytes) {
    const auto kept = Own(std::move(bytes));
    return Slice{*kept, kept};
  }
  /// An owner of `what`, which counts as held while it lives.
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

/// The memory that a handler answers from, set before its first call. A mutex orders it, because a
/// race detector sees no order between that thread and the calls' threads: UCX is not instrumented.
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
