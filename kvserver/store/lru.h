// SPDX-License-Identifier: Apache-2.0
//
// Lru: the extent that was not used for the longest time leaves first.
#ifndef QUIRE_KVSERVER_STORE_LRU_H_
#define QUIRE_KVSERVER_STORE_LRU_H_

#include <list>
#include <unordered_map>

#include "kvserver/store/eviction_policy.h"

namespace quire::kvserver {

class Lru final : public EvictionPolicy {
 public:
  void Insert(const ExtentId& id, uint64_t bytes) override;
  void Touch(const ExtentId& id) override;
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(
      const std::function<bool(const ExtentId&)>& evictable) const override;
  size_t size() const override { return where_.size(); }

 private:
  std::list<ExtentId> order_;  // coldest first
  std::unordered_map<ExtentId, std::list<ExtentId>::iterator, ExtentIdHash> where_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_LRU_H_
