// SPDX-License-Identifier: Apache-2.0
//
// Pgdsf: greedy dual size frequency with knowledge of prefixes. The extent with the lowest priority
// leaves first, and before the segment that it continues:
//   Priority = Clock + Frequency * AvgCost
// Frequency counts uses, including those of earlier stays while they are remembered. AvgCost is the
// mean of the seconds per token to compute the extent, one sample for each miss. It is cost over
// size already, so there is no further division by size. The clock is the highest evicted priority,
// so unused extents fall behind.
//
// Leaf first: an extent leaves before its parent (NewExtent::parent, same layer). Parents leave
// only when no offered leaf can. An extent of unknown cost has the mean of the known costs, or 1
// when there are none.
//
// Memory of evicted extents is bounded: four times the tracked ones, at least 1024. With fewer, the
// uses of extents that return regularly are lost. With all, old uses outweigh new ones (`quire
// bench trace`).
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_PGDSF_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_PGDSF_H_

#include <unordered_map>

#include "kvserver/store/policy/eviction/ghost_list.h"
#include "kvserver/store/policy/eviction/victim_order.h"

namespace quire::kvserver {

/// A running mean.
struct MeanCost {
  double seconds = 0;
  uint64_t samples = 0;

  /// Adds a sample. Ignores numbers that are not positive and finite.
  void Add(double seconds_per_token);
  double Or(double otherwise) const {
    return samples == 0 ? otherwise : seconds / static_cast<double>(samples);
  }
};

class Pgdsf final : public EvictionPolicy {
 public:
  void Insert(const NewExtent& extent) override;
  void Touch(const ExtentId& id) override;
  void Evict(const ExtentId& id) override;
  void Remove(const ExtentId& id) override;
  std::optional<ExtentId> Victim(const Evictable& evictable) override;
  size_t size() const override { return entries_.size(); }

  /// The highest evicted priority.
  double clock() const { return clock_; }

 private:
  struct History {
    uint64_t frequency = 0;
    MeanCost cost;
  };
  struct Entry {
    History history;
    uint64_t bytes = 0;
    ExtentId parent;  ///< The extent itself when it has none.
    VictimOrder::Place place;
  };

  VictimOrder& OrderOf(const ExtentId& id) { return children_.contains(id) ? inner_ : leaves_; }
  void SetPlace(Entry& entry);
  void AddChild(const ExtentId& parent);
  void RemoveChild(const ExtentId& parent);

  std::unordered_map<ExtentId, Entry, ExtentIdHash> entries_;
  // Number of tracked children of an extent, which need not be tracked itself. An extent without an
  // entry is a leaf.
  std::unordered_map<ExtentId, uint32_t, ExtentIdHash> children_;
  VictimOrder leaves_, inner_;
  GhostList<History> ghosts_;
  MeanCost all_costs_;
  double clock_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_PGDSF_H_
