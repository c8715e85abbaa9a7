// SPDX-License-Identifier: Apache-2.0
//
// ReplicaPlan: which nodes have copies of a name's versions, and what one node does about it.
// Owners keep all versions; a hot document has more of them. Another node keeps what it has until
// every owner has it. Pure functions.
#ifndef QUIRE_CLUSTER_REPLICA_REPLICA_PLAN_H_
#define QUIRE_CLUSTER_REPLICA_REPLICA_PLAN_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "cluster/placement/placement.h"
#include "cluster/replica/local_documents.h"
#include "cluster/view/cluster_view.h"
#include "quire/documents.h"

namespace quire::cluster {

/// A name's place in a view, as one node sees it.
struct NamePlace {
  bool owned = false;                 ///< The node is an owner.
  uint32_t min_owners = 1;            ///< With fewer other owners the node drops nothing.
  std::vector<Member> other_owners;   ///< Nearest first.
  std::vector<Member> other_holders;  ///< Other members that serve and may have it, nearest first.
};
[[nodiscard]] NamePlace PlaceOf(const Placement& placement, std::string_view node,
                                std::string_view tenant, const DocumentName& name);

enum class ReplicaTask : uint8_t { kNone, kCopy, kRelease };
/// Work of the node on a version of a name at `place`.
[[nodiscard]] ReplicaTask TaskOf(const NamePlace& place, Held held);

/// True when a node that is no owner may drop a version. `owners_hold` has the owners' answers, in
/// their order. With fewer than `min_owners` nothing is dropped.
[[nodiscard]] bool MayRelease(const NamePlace& place, const std::vector<bool>& owners_hold);

/// True when the same names have the same owners in both views, but for hot documents.
[[nodiscard]] bool SamePlacement(const ClusterView& a, const ClusterView& b);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_REPLICA_PLAN_H_
