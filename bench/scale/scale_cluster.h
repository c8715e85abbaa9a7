// SPDX-License-Identifier: Apache-2.0
//
// A large cluster on paper: how many nodes, documents and segments, and the view that its nodes
// would have. Everything follows from the options, so two runs compute the same. Pure functions.
#ifndef QUIRE_BENCH_SCALE_SCALE_CLUSTER_H_
#define QUIRE_BENCH_SCALE_SCALE_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cluster/placement/placement_key.h"
#include "cluster/view/cluster_view.h"
#include "quire/documents.h"

namespace quire::scale {

struct ScaleOptions {
  uint32_t nodes = 1000;
  uint32_t zones = 10;
  uint32_t replicas = 2;
  uint64_t segments = 1'000'000'000;  ///< Without their replicas.
  uint32_t segments_per_document = 100;
  uint64_t segment_bytes = uint64_t{32} << 20;  ///< Payload of one.
  uint32_t sampled_documents = 200'000;         ///< Placed one by one.
  uint32_t sampled_segments = 200'000;          ///< Kept in real structures, to measure memory.
  double lease_seconds = 10;
  double registrations_per_second = 10;  ///< New versions, in the whole cluster.
  double restarts_per_day = 1;           ///< Restarts of each node.

  uint64_t documents() const { return segments / segments_per_document; }
};

/// Weights of the nodes in turn: machines of three sizes.
inline constexpr uint32_t kScaleWeights[] = {1, 2, 4};

/// A view of the nodes numbered `first`, `first + 1`, ... Zones and weights follow from the number.
[[nodiscard]] cluster::ClusterView ViewOfNodes(const ScaleOptions& options, uint32_t first,
                                               uint32_t count);
/// Describes document `number` as a registered one.
[[nodiscard]] Document DocumentOf(const ScaleOptions& options, uint64_t number);
/// Keys of the sampled documents.
[[nodiscard]] std::vector<cluster::PlacementKey> SampledKeys(const ScaleOptions& options);

}  // namespace quire::scale

#endif  // QUIRE_BENCH_SCALE_SCALE_CLUSTER_H_
