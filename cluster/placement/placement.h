// SPDX-License-Identifier: Apache-2.0
//
// Placement: weighted rendezvous hashing of runs over the members of a view. Each member has a
// distance to a run: -log2(hash(run, node)) over its weight. The nearest members own the run. A
// change of one member moves only the runs that it gains or loses.
//
// Distances are integers, so every machine computes the same order. Thread-safety: immutable.
#ifndef QUIRE_CLUSTER_PLACEMENT_PLACEMENT_H_
#define QUIRE_CLUSTER_PLACEMENT_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/placement/placement_key.h"
#include "cluster/view/cluster_view.h"

namespace quire::cluster {

/// Members as indices of ClusterView::members.
struct Owners {
  std::vector<uint32_t> members;  ///< Nearest first; fewer than asked for when too few are up.
  uint32_t num_zones = 0;         ///< Different zones among them.
};

class Placement {
 public:
  /// `view` is not null.
  explicit Placement(std::shared_ptr<const ClusterView> view);

  const ClusterView& view() const { return *view_; }

  /// Nodes that a new run is put to: members that are up, in different zones as far as there are
  /// enough of them. The first is the nearest of all. More `replicas` add owners behind the others.
  [[nodiscard]] Owners OwnersOf(PlacementKey key, uint32_t replicas) const;
  /// Nodes that a run is kept on: replicas, and more while the document is hot. All are owners.
  [[nodiscard]] uint32_t CopiesOf(PlacementKey key) const;
  /// True when the run has more owners than others.
  [[nodiscard]] bool IsHot(PlacementKey key) const {
    return CopiesOf(key) > view_->settings.replicas;
  }
  /// Members that serve, nearest first. After a change of members a run lies among the first ones,
  /// so a reader asks in this order.
  [[nodiscard]] std::vector<uint32_t> ReadOrder(PlacementKey key) const;
  /// All members, nearest first. Members that left or are lost may have the run on their disks.
  [[nodiscard]] std::vector<uint32_t> MayHold(PlacementKey key) const;

 private:
  struct Node {
    uint32_t member = 0;
    uint64_t hash = 0;
    uint32_t weight = 1;
    uint32_t zone = 0;
    bool takes_new_runs = true;
  };
  struct Distance {
    uint64_t log = 0;  ///< -log2 of the hash, in units of 2^-30.
    uint32_t node = 0;
  };
  bool IsNearer(const Distance& a, const Distance& b) const;
  std::vector<Distance> Distances(PlacementKey key) const;

  const std::shared_ptr<const ClusterView> view_;
  std::vector<Node> nodes_;  ///< One for each member, in the view's order.
};

/// Why `owners` are not `replicas` nodes in as many zones; empty when they are.
[[nodiscard]] std::string Shortfall(const Owners& owners, uint32_t replicas);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_PLACEMENT_PLACEMENT_H_
