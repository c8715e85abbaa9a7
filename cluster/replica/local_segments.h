// SPDX-License-Identifier: Apache-2.0
//
// LocalSegments: the seam between replication and the segments of this node. Implementation:
// kvserver/service/replica. Thread-safety: all methods may be called concurrently. Errors: as
// Replica's methods of the same name (replica.proto).
#ifndef QUIRE_CLUSTER_REPLICA_LOCAL_SEGMENTS_H_
#define QUIRE_CLUSTER_REPLICA_LOCAL_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cluster/replica/chain_copy.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

/// A chain that is being copied to this node. Its segments here stay while the object lives.
/// Thread-safety: none.
class ChainPut {
 public:
  virtual ~ChainPut() = default;
  /// True when the chain's segment is here and not known to be damaged.
  virtual bool Has(uint32_t index) = 0;
  /// Stores the segment behind the one before it. DATA_LOSS when a unit does not match its
  /// checksum, INVALID_ARGUMENT when the tokens do not make the segment's key.
  [[nodiscard]] virtual Status Put(uint32_t index, const SegmentCopy& segment) = 0;
};

class LocalSegments {
 public:
  virtual ~LocalSegments() = default;

  virtual StatusOr<ChainDescription> Describe(std::string_view tenant, const SegmentKey& tip) = 0;
  /// Reads verified units from `first_unit` on, at least one, up to `max_bytes` together.
  virtual StatusOr<UnitRun> Read(std::string_view tenant, const SegmentKey& key,
                                 uint64_t first_unit, uint64_t max_bytes) = 0;
  /// Empty when there are none.
  virtual StatusOr<std::vector<std::byte>> ReadRepresentatives(std::string_view tenant,
                                                               const SegmentKey& key) = 0;
  /// Begins to copy a chain.
  virtual std::unique_ptr<ChainPut> Begin(std::string_view tenant, ChainDescription chain) = 0;
  /// Segments that are known to be damaged or lost. Costs nothing.
  virtual uint64_t NumDamaged() const = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_LOCAL_SEGMENTS_H_
