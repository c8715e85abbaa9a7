// SPDX-License-Identifier: Apache-2.0
//
// Rules of joining a cluster: a node may join when its disk, its name and its clock fit the
// records. Every refusal says what is wrong and what to do. Nothing is changed before all rules
// hold, so a refused node has done no harm. The node enters by one transaction. Pure functions.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_JOIN_RULES_H_
#define QUIRE_CLUSTER_MEMBERSHIP_JOIN_RULES_H_

#include <cstdint>
#include <span>
#include <string>

#include "cluster/membership/cluster_records.h"
#include "cluster/view/cluster_view.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

/// The node that wants to join.
struct Joiner {
  std::string cluster_name;
  Member self;                ///< With the node id and the incarnation.
  v1::NodeIdentity identity;  ///< From its disk, or new with an empty cluster_id.
  /// This process listens on the address of `self`, so that no other can.
  bool listens_on_address = false;
};

enum class JoinStep : uint8_t {
  kEnter,  ///< The node is new, comes back, or replaces its former process.
  kWait,   ///< A process with this node's id may live elsewhere until its lease ends.
};

/// Decides the next step of the node. FAILED_PRECONDITION when
/// - its disk belongs to another cluster or node, or to a node that was removed,
/// - its name belongs to another disk,
/// - it speaks an older protocol than the cluster's, or has none in common with a node that is up,
/// - etcd has lost the cluster that the disk belongs to.
/// ALREADY_EXISTS when another node of this name is up.
[[nodiscard]] StatusOr<JoinStep> CheckJoin(const Joiner& joiner, const ClusterRecords& records);

/// The transaction by which the node enters, with its live record under `lease`, if `records` still
/// stand. It founds the cluster with `founding` where there is none.
[[nodiscard]] etcdserverpb::TxnRequest JoinTxn(const Joiner& joiner, const ClusterRecords& records,
                                               const v1::ClusterRecord& founding, int64_t lease);

/// FAILED_PRECONDITION when the clock differs from most of the asked nodes' by more than `limit`.
/// `offsets_micros` are this clock less theirs. Without any, all is well.
[[nodiscard]] Status CheckClock(std::span<const int64_t> offsets_micros, Duration limit);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_JOIN_RULES_H_
