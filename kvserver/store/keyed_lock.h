// SPDX-License-Identifier: Apache-2.0
//
// KeyedLock: one writer per segment at a time. Writers of other segments never wait for it, and
// readers only after a failed read. Thread-safety: all methods are safe. A Guard belongs to its
// thread; take one at a time.
#ifndef QUIRE_KVSERVER_STORE_KEYED_LOCK_H_
#define QUIRE_KVSERVER_STORE_KEYED_LOCK_H_

#include <optional>
#include <unordered_set>
#include <utility>

#include "common/base/threads/mutex.h"
#include "quire/key.h"

namespace quire::kvserver {

class KeyedLock {
 public:
  class Guard {
   public:
    Guard(Guard&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)), key_(other.key_) {}
    ~Guard() {
      if (lock_ != nullptr) lock_->Release(key_);
    }

   private:
    friend class KeyedLock;
    Guard(KeyedLock* lock, const SegmentKey& key) : lock_(lock), key_(key) {}
    KeyedLock* lock_;
    SegmentKey key_;
  };

  /// Waits until `key` is free.
  [[nodiscard]] Guard Acquire(const SegmentKey& key) {
    MutexLock lock(mutex_);
    while (!held_.insert(key).second) released_.Wait(mutex_);
    return Guard(this, key);
  }
  /// Returns nullopt when `key` is held.
  [[nodiscard]] std::optional<Guard> TryAcquire(const SegmentKey& key) {
    MutexLock lock(mutex_);
    if (!held_.insert(key).second) return std::nullopt;
    return Guard(this, key);
  }

 private:
  void Release(const SegmentKey& key) {
    MutexLock lock(mutex_);
    held_.erase(key);
    released_.NotifyAll();
  }

  Mutex mutex_;
  CondVar released_;
  std::unordered_set<SegmentKey, SegmentKeyHash> held_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_KEYED_LOCK_H_
