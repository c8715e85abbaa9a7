// SPDX-License-Identifier: Apache-2.0
//
// Pgdsf: greedy dual size frequency that knows prefixes. The extent with the lowest priority leaves
// first, and before the segment that it continues:
//   Priority = Clock + Frequency * AvgCost
// Frequency counts the uses, those of earlier stays included while they are remembered. AvgCost is
// the mean of the seconds per token that it cost to compute the extent, one sample each time that
// it came because it was missing. That is cost over size already; size is not divided by again. The
// clock is the highest priority that was evicted, so that what is not used any more falls behind.
//
// Leaf first: an extent leaves before its parent (NewExtent::parent, same layer). Parents leave
// only when no leaf that is asked about can. An extent whose cost is not known counts with the mean
// of the costs that are, or with 1 as long as none is.
//
// What is remembered of evicted extents is bounded: four times as many as are tracked, 1024 at
// least. With fewer, uses are forgotten of extents that come back regularly; with all, old uses
// outweigh new ones (`quire bench trace`).
#ifndef QUIRE_KVSERVER_STORE_POLICY_PGDSF_H_
#define QUIRE_KVSERVER_STORE_POLICY_PGDSF_H_

#include <unordered_map>

#include "kvserver/store/policy/ghost_list.h"
#include "kvserver/store/policy/victim_order.h"

namespace quire::kvserver {

/// A running mean.
struct MeanCost {
  double seconds = 0;
  uint64_t samples = 0;

  /// Ignores what is not a positive finite number.
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

  /// The highest priority that was evicted.
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
  // Tracked children of an extent, which need not be tracked itself; none: it is a leaf.
  std::unordered_map<ExtentId, uint32_t, ExtentIdHash> children_;
  VictimOrder leaves_, inner_;
  GhostList<History> ghosts_;
  MeanCost all_costs_;
  double clock_ = 0;
  uint64_t turn_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_PGDSF_H_
