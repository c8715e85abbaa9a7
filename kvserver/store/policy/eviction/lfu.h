// SPDX-License-Identifier: Apache-2.0
//
// Lfu: the extent with the fewest uses leaves first, among equals the least recently used. Uses do
// not age. It serves as a baseline.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_LFU_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_LFU_H_

#include <unordered_map>

#include "kvserver/store/policy/eviction/victim_order.h"

namespace quire::kvserver {

class Lfu final : public EvictionPolicy {
 public:
  void Insert(const NewExtent& extent) override;
  void Touch(const ExtentId& id) override;
  void Evict(const ExtentId& id) override { Remove(id); }
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(const Evictable& evictable) override;
  size_t size() const override { return places_.size(); }

 private:
  VictimOrder order_;
  std::unordered_map<ExtentId, VictimOrder::Place, ExtentIdHash> places_;  // priority = uses
  uint64_t turn_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_LFU_H_
