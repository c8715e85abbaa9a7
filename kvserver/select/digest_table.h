// SPDX-License-Identifier: Apache-2.0
//
// DigestTable: which digests are resident, for whom and how often, within a bound of bytes. Bytes
// are counted when they are promised, before they are read, so that the bound holds at any moment.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_
#define QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

using ResidentBytes = std::shared_ptr<const std::vector<std::byte>>;

class DigestTable {
 public:
  explicit DigestTable(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// False when so many bytes would not fit into an empty table.
  bool CouldHold(uint64_t bytes) const { return bytes <= max_bytes_; }
  /// The bytes of `id` with one more holder; null when they are not resident for `tenant`.
  ResidentBytes Share(std::string_view tenant, const ExtentId& id) QUIRE_EXCLUDES(mutex_);
  /// Room for `bytes` of a new entry; false when they do not fit.
  bool Promise(uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Gives promised bytes back unused.
  void Withdraw(uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Makes `bytes`, promised before, resident with one holder. When another thread was faster its
  /// bytes are shared and the promise is given back.
  ResidentBytes Add(std::string_view tenant, const ExtentId& id, ResidentBytes bytes)
      QUIRE_EXCLUDES(mutex_);
  /// One holder less; the last one takes the entry along.
  void Release(std::string_view tenant, const ExtentId& id) QUIRE_EXCLUDES(mutex_);

  uint64_t used_bytes() const QUIRE_EXCLUDES(mutex_);

 private:
  /// Keys are hashes with a salt of the tenant, but nobody may share by naming another's key.
  struct Key {
    std::string tenant;
    ExtentId id;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return ExtentIdHash()(key.id); }
  };
  struct Entry {
    ResidentBytes bytes;
    uint64_t holders = 0;
  };

  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_ QUIRE_GUARDED_BY(mutex_);
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_
