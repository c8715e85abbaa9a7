// SPDX-License-Identifier: Apache-2.0
//
// GhostList: bounded memory of evicted extents, forgotten in order of eviction. Extents are known
// by a 64-bit hash. Two extents with the same hash share one memory. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_GHOST_LIST_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_GHOST_LIST_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "kvserver/store/unit.h"

namespace quire::kvserver {

template <typename Memory>
class GhostList {
 public:
  /// Remembers `memory` of an extent of `bytes` bytes, replacing an earlier memory of it.
  void Remember(const ExtentId& id, uint64_t bytes, Memory memory) {
    const uint64_t hash = ExtentIdHash()(id);
    Take(hash);
    where_[hash] = order_.insert(order_.end(), Ghost{hash, bytes, std::move(memory)});
    bytes_ += bytes;
  }

  /// Forgets the extent and returns its memory.
  std::optional<Memory> Take(const ExtentId& id) { return Take(ExtentIdHash()(id)); }

  /// Forgets until at most `max_extents`, together of at most `max_bytes`, remain.
  void Trim(size_t max_extents, uint64_t max_bytes) {
    while (where_.size() > max_extents || bytes_ > max_bytes) Take(order_.front().hash);
  }

  size_t size() const { return where_.size(); }

 private:
  struct Ghost {
    uint64_t hash;
    uint64_t bytes;
    Memory memory;
  };

  std::optional<Memory> Take(uint64_t hash) {
    const auto it = where_.find(hash);
    if (it == where_.end()) return std::nullopt;
    std::optional<Memory> memory(std::move(it->second->memory));
    bytes_ -= it->second->bytes;
    order_.erase(it->second);
    where_.erase(it);
    return memory;
  }

  std::list<Ghost> order_;  // oldest eviction first
  std::unordered_map<uint64_t, typename std::list<Ghost>::iterator> where_;
  uint64_t bytes_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_GHOST_LIST_H_
