// SPDX-License-Identifier: Apache-2.0
//
// Gdsf: greedy dual size frequency. The extent with the lowest priority leaves first:
//   Priority = Clock + Frequency * Cost / Size
// The clock is the priority of the last evicted extent, so unused extents fall behind new ones.
// Cost = 1 favours many small extents (most hits). Cost = Size makes all bytes equal (most bytes
// hit).
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_GDSF_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_GDSF_H_

#include <unordered_map>

#include "kvserver/store/policy/eviction/victim_order.h"

namespace quire::kvserver {

class Gdsf final : public EvictionPolicy {
 public:
  enum class Cost { kOne, kBytes };
  explicit Gdsf(Cost cost) : cost_(cost) {}

  void Insert(const NewExtent& extent) override;
  void Touch(const ExtentId& id) override;
  void Evict(const ExtentId& id) override;
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(const Evictable& evictable) override;
  size_t size() const override { return entries_.size(); }

 private:
  struct Entry {
    double worth = 0;  ///< Cost / Size, added by one use.
    uint64_t frequency = 1;
    VictimOrder::Place place;
  };
  void SetPlace(Entry& entry);

  const Cost cost_;
  VictimOrder order_;
  std::unordered_map<ExtentId, Entry, ExtentIdHash> entries_;
  double clock_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_GDSF_H_
