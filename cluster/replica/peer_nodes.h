// SPDX-License-Identifier: Apache-2.0
//
// PeerNodes: the seam by which a node calls other members of its cluster about copies. Errors are
// those of Replica's methods (replica.proto); UNAVAILABLE and DEADLINE_EXCEEDED when the member
// does not answer. Implementation: PeerCalls. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_CLUSTER_REPLICA_PEER_NODES_H_
#define QUIRE_CLUSTER_REPLICA_PEER_NODES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/replica/chain_copy.h"
#include "cluster/view/cluster_view.h"
#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

/// How much of an agreed version a node has.
enum class Held : uint8_t {
  kNot,      ///< Nothing, or another chain.
  kDamaged,  ///< Its document, and not all segments; or it is about to leave it to others.
  kWhole,
};

/// An extra of a document with its bytes, and the segments that go with it.
struct ExtraCopy {
  Extra extra;
  std::string bytes;
  std::vector<SegmentKey> segments = {};
};

class PeerNodes {
 public:
  virtual ~PeerNodes() = default;

  virtual StatusOr<ChainDescription> Describe(const Member& member, std::string_view tenant,
                                              const SegmentKey& tip) = 0;
  /// Reads a whole segment of a chain of `spec`, with its representatives.
  virtual StatusOr<SegmentCopy> Read(const Member& member, std::string_view tenant,
                                     const KvSpec& spec, const SegmentKey& key) = 0;
  /// All extras of a version. Those with segments that the member does not name are left out: it is
  /// of an older version.
  virtual StatusOr<std::vector<ExtraCopy>> ReadExtras(const Member& member, std::string_view tenant,
                                                      const DocumentName& name) = 0;
  /// One answer for each document.
  virtual StatusOr<std::vector<Held>> Holds(const Member& member, std::string_view tenant,
                                            std::span<const Document> documents) = 0;
  /// Has the member copy the chain from node `from`, until `deadline` of the system's monotonic
  /// clock.
  [[nodiscard]] virtual Status CopyChain(const Member& member, std::string_view tenant,
                                         const SegmentKey& tip, std::string_view from,
                                         TimePoint deadline) = 0;
  [[nodiscard]] virtual Status Adopt(const Member& member, std::string_view tenant,
                                     const DocumentName& name, TimePoint deadline) = 0;
  /// Has the member copy the extras of a version from node `from`.
  [[nodiscard]] virtual Status CopyExtras(const Member& member, std::string_view tenant,
                                          const DocumentName& name, std::string_view from,
                                          TimePoint deadline) = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_PEER_NODES_H_
