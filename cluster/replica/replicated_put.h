// SPDX-License-Identifier: Apache-2.0
//
// ReplicatedPut: has the other owners of a document make their copies before the put of a version
// is acknowledged. First they copy its chain, then the version is agreed, then they adopt it. All
// owners work at the same time, so one that hangs holds up no other. A copy that fails is made
// later by the Replicator of its owner. Thread-safety: all methods may be
// called concurrently. Ownership: the parts outlive it.
#ifndef QUIRE_CLUSTER_REPLICA_REPLICATED_PUT_H_
#define QUIRE_CLUSTER_REPLICA_REPLICATED_PUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/membership/membership.h"
#include "cluster/replica/peer_nodes.h"
#include "cluster/replica/replica_plan.h"
#include "common/base/threads/run_all.h"
#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

class ReplicatedPut {
 public:
  /// `run_all` runs the calls to several owners.
  ReplicatedPut(PeerNodes* peers, const Membership* membership, std::string node,
                RunAll run_all = RunInThreads)
      : peers_(peers),
        membership_(membership),
        node_(std::move(node)),
        run_all_(std::move(run_all)) {}

  /// Members that have the chain besides this node. UNAVAILABLE when fewer nodes than the
  /// cluster's min_replicas would keep the document. The owners get half of the time, so some
  /// remains for the caller.
  StatusOr<std::vector<Member>> Prepare(std::string_view tenant, const DocumentName& name,
                                        const SegmentKey& tip, TimePoint deadline);
  /// Has `members` adopt an agreed version. Returns the number of copies, this node's included.
  /// UNAVAILABLE when they are fewer than min_replicas: the version is agreed, and more copies
  /// come.
  StatusOr<uint32_t> Adopt(std::string_view tenant, const DocumentName& name,
                           const std::vector<Member>& members, TimePoint deadline);
  /// Has other nodes copy a chain that no document needs to name, so that as many have it as there
  /// are replicas. They are the nearest to its first segment. Returns the number of copies, this
  /// node's included. Errors as Prepare.
  StatusOr<uint32_t> CopyCached(std::string_view tenant, const SegmentKey& first_segment,
                                const SegmentKey& tip, TimePoint deadline);
  /// Has the other owners copy the extras of a version. An owner that fails does without.
  void ShareExtras(std::string_view tenant, const DocumentName& name, TimePoint deadline);

 private:
  /// Calls all members, and returns how each call ended.
  std::vector<Status> CallAll(const std::vector<Member>& members,
                              const std::function<Status(const Member&)>& call) const;
  NamePlace Place(std::string_view tenant, const DocumentName& name) const;
  Status CheckEnough(uint64_t copies, const Status& failure) const;

  PeerNodes* const peers_;
  const Membership* const membership_;
  const std::string node_;
  const RunAll run_all_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_REPLICATED_PUT_H_
