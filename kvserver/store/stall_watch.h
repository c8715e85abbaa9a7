// SPDX-License-Identifier: Apache-2.0
//
// StallWatch: the device operations in flight and their start times, so that a stalled one is
// noticed while it runs.
//
// Ownership: the watch outlives its operations. An operation is on its caller's stack, and the
// watch links the operations; neither allocates. Thread-safety: all methods may be called
// concurrently. No lock is held over I/O.
#ifndef QUIRE_KVSERVER_STORE_STALL_WATCH_H_
#define QUIRE_KVSERVER_STORE_STALL_WATCH_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire::kvserver {

class StallWatch {
 public:
  /// `clock` outlives the watch. An operation that takes longer than `bound` is stalled.
  StallWatch(const Clock* clock, Duration bound) : clock_(*clock), bound_(bound) {}
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// In flight while it lives.
  class Operation {
   public:
    /// `what` describes the operation, for people: "a read of the payload volumes". A literal.
    /// `watch` may be null.
    Operation(StallWatch* watch, std::string_view what) : watch_(watch), what_(what) {
      if (watch_ != nullptr) watch_->Begin(this);
    }
    ~Operation() {
      if (watch_ != nullptr) watch_->End(this);
    }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    friend class StallWatch;
    StallWatch* const watch_;
    const std::string_view what_;
    TimePoint begin_ = {};  // Start time. Guarded by the watch's mutex, like the links.
    Operation* older_ = nullptr;
    Operation* newer_ = nullptr;
  };

  struct Stall {
    std::string_view what;
    Duration in_flight{0};
  };
  /// The longest operation in flight, if it exceeds the bound.
  std::optional<Stall> Find() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (oldest_ == nullptr) return std::nullopt;
    const Duration in_flight = clock_.Now() - oldest_->begin_;
    if (in_flight <= bound_) return std::nullopt;
    return Stall{oldest_->what_, in_flight};
  }

 private:
  void Begin(Operation* operation) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    operation->begin_ = clock_.Now();
    operation->older_ = newest_;
    (newest_ != nullptr ? newest_->newer_ : oldest_) = operation;
    newest_ = operation;
  }
  void End(Operation* operation) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    (operation->older_ != nullptr ? operation->older_->newer_ : oldest_) = operation->newer_;
    (operation->newer_ != nullptr ? operation->newer_->older_ : newest_) = operation->older_;
  }

  const Clock& clock_;
  const Duration bound_;
  mutable Mutex mutex_;
  Operation* oldest_ QUIRE_GUARDED_BY(mutex_) = nullptr;
  Operation* newest_ QUIRE_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_STALL_WATCH_H_
