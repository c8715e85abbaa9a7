// SPDX-License-Identifier: Apache-2.0
//
// Lru: the least recently used extent leaves first. Insert, Touch, Evict and Remove are O(1).
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_LRU_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_LRU_H_

#include <list>
#include <unordered_map>

#include "kvserver/store/policy/eviction/eviction_policy.h"

namespace quire::kvserver {

class Lru final : public EvictionPolicy {
 public:
  void Insert(const NewExtent& extent) override;
  void Touch(const ExtentId& id) override;
  void Evict(const ExtentId& id) override { Remove(id); }
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(const Evictable& evictable) override;
  size_t size() const override { return where_.size(); }

 private:
  using List = std::list<ExtentId>;
  struct Place {
    List::iterator position;
    bool aside = false;
  };
  void AskSomeAgain();

  // Together all extents. An extent that steps aside is colder than those in order.
  List order_;  // coldest first
  List aside_;  // refused, oldest refusal first
  std::unordered_map<ExtentId, Place, ExtentIdHash> where_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_LRU_H_
