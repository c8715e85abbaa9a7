// SPDX-License-Identifier: Apache-2.0
//
// ChainCopier: copies one chain to this node, a segment at a time. Segments that are here stay.
// Others come from the first source that has them whole. A copy may pause between two segments and
// go on later. Nothing names the segments yet; they stay while the copier lives. Thread-safety:
// none. Ownership: what it is made over outlives it.
#ifndef QUIRE_CLUSTER_REPLICA_CHAIN_COPIER_H_
#define QUIRE_CLUSTER_REPLICA_CHAIN_COPIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/replica/local_segments.h"
#include "cluster/replica/peer_nodes.h"
#include "cluster/view/cluster_view.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

class ChainCopier {
 public:
  ChainCopier(LocalSegments* local, PeerNodes* peers, std::string_view tenant,
              const SegmentKey& tip)
      : local_(*local), peers_(*peers), tenant_(tenant), tip_(tip) {}

  /// Copies missing segments from `sources`, in this order, while `may_go` holds. Returns true when
  /// the whole chain is here. An error is the first source's that was not NOT_FOUND, or else
  /// NOT_FOUND; what was copied so far is kept.
  StatusOr<bool> Advance(const std::vector<Member>& sources, const std::function<bool()>& may_go);

  std::string_view tenant() const { return tenant_; }
  const SegmentKey& tip() const { return tip_; }
  /// Segments of the chain, in order; empty before a source has described it.
  const std::vector<SegmentKey>& keys() const { return chain_.keys; }
  /// Stored bytes of the segments that were copied.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  Status Describe(const std::vector<Member>& sources);
  Status CopyNext(const std::vector<Member>& sources);
  Status CopyFrom(const Member& source);

  LocalSegments& local_;
  PeerNodes& peers_;
  const std::string tenant_;
  const SegmentKey tip_;
  ChainDescription chain_;
  std::unique_ptr<ChainPut> put_;  ///< Null before the chain is described.
  uint32_t next_ = 0;              ///< First segment that may be missing.
  uint64_t copied_bytes_ = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_CHAIN_COPIER_H_
