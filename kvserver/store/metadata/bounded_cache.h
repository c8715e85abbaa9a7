// SPDX-License-Identifier: Apache-2.0
//
// BoundedCache: recently used immutable values, bounded by charged bytes. A value read from storage
// is inserted with the epoch seen before the read. The insert is dropped if an invalidation came in
// between, so a slow reader cannot restore deleted values. Ownership: values are copied out; use
// shared pointers. Thread-safety: all methods are safe.
#ifndef QUIRE_KVSERVER_STORE_METADATA_BOUNDED_CACHE_H_
#define QUIRE_KVSERVER_STORE_METADATA_BOUNDED_CACHE_H_

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"

namespace quire::kvserver {

template <typename Key, typename Value, typename Hash>
class BoundedCache {
 public:
  explicit BoundedCache(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  std::optional<Value> Find(const Key& key) {
    MutexLock lock(mutex_);
    const auto it = where_.find(key);
    if (it == where_.end()) return std::nullopt;
    order_.splice(order_.end(), order_, it->second);
    return it->second->value;
  }

  /// As Find, without counting as a use.
  std::optional<Value> Peek(const Key& key) const {
    MutexLock lock(mutex_);
    const auto it = where_.find(key);
    if (it == where_.end()) return std::nullopt;
    return it->second->value;
  }
  /// Keys of everything that is held, in no order.
  std::vector<Key> Keys() const {
    std::vector<Key> keys;
    MutexLock lock(mutex_);
    keys.reserve(where_.size());
    for (const auto& [key, entry] : where_) keys.push_back(key);
    return keys;
  }

  uint64_t epoch() const {
    MutexLock lock(mutex_);
    return epoch_;
  }

  /// Inserts `value`, charged with `bytes`, unless there was an invalidation since `epoch`.
  void Insert(const Key& key, Value value, uint64_t bytes, uint64_t epoch) {
    MutexLock lock(mutex_);
    if (epoch == epoch_) Keep(key, std::move(value), bytes);
  }
  /// Keeps `value` in the place of what was there. For its writer, who excludes others.
  void Replace(const Key& key, Value value, uint64_t bytes) {
    MutexLock lock(mutex_);
    Keep(key, std::move(value), bytes);
  }

  void Invalidate(const Key& key) {
    MutexLock lock(mutex_);
    ++epoch_;
    Remove(key);
  }
  void Clear() {
    MutexLock lock(mutex_);
    ++epoch_;
    where_.clear();
    order_.clear();
    used_bytes_ = 0;
  }

  uint64_t used_bytes() const {
    MutexLock lock(mutex_);
    return used_bytes_;
  }

 private:
  struct Entry {
    Key key;
    Value value;
    uint64_t bytes;
  };

  void Keep(const Key& key, Value value, uint64_t bytes) QUIRE_REQUIRES(mutex_) {
    Remove(key);
    if (bytes > capacity_bytes_) return;
    where_[key] = order_.insert(order_.end(), Entry{key, std::move(value), bytes});
    used_bytes_ += bytes;
    while (used_bytes_ > capacity_bytes_) Remove(Key(order_.front().key));
  }
  void Remove(const Key& key) QUIRE_REQUIRES(mutex_) {
    const auto it = where_.find(key);
    if (it == where_.end()) return;
    used_bytes_ -= it->second->bytes;
    order_.erase(it->second);
    where_.erase(it);
  }

  const uint64_t capacity_bytes_;
  mutable Mutex mutex_;
  std::list<Entry> order_ QUIRE_GUARDED_BY(mutex_);  // least recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> where_
      QUIRE_GUARDED_BY(mutex_);
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t epoch_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_BOUNDED_CACHE_H_
