// SPDX-License-Identifier: Apache-2.0
//
// CheckedCache: a BoundedCache with a checksum beside each value, made when the value is inserted.
// A CacheWalk verifies the entries, and drops those that have changed in memory. Their next reader
// gets them from storage. Ownership: as BoundedCache; the cache outlives its walks. Thread-safety:
// all methods of the cache are safe; a walk belongs to one thread. Checksums are made outside the
// lock.
#ifndef QUIRE_KVSERVER_STORE_METADATA_CHECKED_CACHE_H_
#define QUIRE_KVSERVER_STORE_METADATA_CHECKED_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kvserver/store/metadata/bounded_cache.h"

namespace quire::kvserver {

/// One value that a walk has verified.
struct CacheCheck {
  uint64_t bytes = 0;  ///< Charged bytes.
  bool intact = true;
};

class CacheWalk {
 public:
  virtual ~CacheWalk() = default;
  /// Verifies the next value, and drops it when it is damaged; nullopt after the last one.
  virtual std::optional<CacheCheck> Next() = 0;
};

template <typename Key, typename Value, typename Hash>
class CheckedCache {
 public:
  /// Checksum of everything that a reader of the value may read.
  using Checksum = uint32_t (*)(const Value&);

  CheckedCache(uint64_t capacity_bytes, Checksum checksum)
      : cache_(capacity_bytes), checksum_(checksum) {}

  std::optional<Value> Find(const Key& key) {
    auto kept = cache_.Find(key);
    if (!kept) return std::nullopt;
    return std::move(kept->value);
  }
  uint64_t epoch() const { return cache_.epoch(); }
  /// As BoundedCache::Insert.
  void Insert(const Key& key, Value value, uint64_t bytes, uint64_t epoch) {
    const uint32_t crc32c = checksum_(value);
    cache_.Insert(key, {std::move(value), crc32c, bytes}, bytes, epoch);
  }
  /// As BoundedCache::Replace.
  void Replace(const Key& key, Value value, uint64_t bytes) {
    const uint32_t crc32c = checksum_(value);
    cache_.Replace(key, {std::move(value), crc32c, bytes}, bytes);
  }
  void Invalidate(const Key& key) { cache_.Invalidate(key); }
  void Clear() { cache_.Clear(); }
  uint64_t used_bytes() const { return cache_.used_bytes(); }
  /// As BoundedCache::Keys.
  std::vector<Key> Keys() const { return cache_.Keys(); }

  /// Goes through what is held now, as far as it is still held when its turn comes.
  std::unique_ptr<CacheWalk> Walk() { return std::make_unique<Walker>(this); }

 private:
  struct Kept {
    Value value;
    uint32_t crc32c;
    uint64_t bytes;
  };

  class Walker final : public CacheWalk {
   public:
    explicit Walker(CheckedCache* cache) : cache_(*cache), keys_(cache->cache_.Keys()) {}
    std::optional<CacheCheck> Next() override {
      while (!keys_.empty()) {
        const Key key = keys_.back();
        keys_.pop_back();
        const std::optional<Kept> kept = cache_.cache_.Peek(key);
        if (!kept) continue;
        const bool intact = cache_.checksum_(kept->value) == kept->crc32c;
        if (!intact) cache_.Invalidate(key);
        return CacheCheck{kept->bytes, intact};
      }
      return std::nullopt;
    }

   private:
    CheckedCache& cache_;
    std::vector<Key> keys_;  ///< Keys still to verify.
  };

  BoundedCache<Key, Kept, Hash> cache_;
  const Checksum checksum_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_CHECKED_CACHE_H_
