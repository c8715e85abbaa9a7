// SPDX-License-Identifier: Apache-2.0
//
// ReplicaSegments: LocalSegments over a PageStore. Units are read and put as they are stored, so a
// copy has the bytes of its source, whatever the codec. Where both have a segment with other bytes,
// each keeps its own. Copies are persisted. Ownership: the store outlives it.
#ifndef QUIRE_KVSERVER_SERVICE_REPLICA_REPLICA_SEGMENTS_H_
#define QUIRE_KVSERVER_SERVICE_REPLICA_REPLICA_SEGMENTS_H_

#include <memory>
#include <string_view>
#include <vector>

#include "cluster/replica/local_segments.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver {

class ReplicaSegments final : public cluster::LocalSegments {
 public:
  explicit ReplicaSegments(PageStore* store) : store_(*store) {}

  StatusOr<cluster::ChainDescription> Describe(std::string_view tenant,
                                               const SegmentKey& tip) override;
  StatusOr<cluster::UnitRun> Read(std::string_view tenant, const SegmentKey& key,
                                  uint64_t first_unit, uint64_t max_bytes) override;
  StatusOr<std::vector<std::byte>> ReadRepresentatives(std::string_view tenant,
                                                       const SegmentKey& key) override;
  std::unique_ptr<cluster::ChainPut> Begin(std::string_view tenant,
                                           cluster::ChainDescription chain) override;
  uint64_t NumDamaged() const override { return store_.num_damaged(); }

 private:
  PageStore& store_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_REPLICA_REPLICA_SEGMENTS_H_
