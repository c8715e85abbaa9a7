// SPDX-License-Identifier: Apache-2.0
//
// PlacementKey: the hash by which a run finds its nodes. A run is a piece of a chain that is placed
// as a whole. Runs of a document are placed by its name, whatever the version, so that one node can
// serve it. Chains that no document names are placed by the key of their first segment, so that
// chains with a common prefix lie together. Pure functions.
#ifndef QUIRE_CLUSTER_PLACEMENT_PLACEMENT_KEY_H_
#define QUIRE_CLUSTER_PLACEMENT_PLACEMENT_KEY_H_

#include <cstdint>
#include <string_view>

#include "quire/key.h"

namespace quire::cluster {

struct PlacementKey {
  uint64_t hash = 0;
  friend bool operator==(PlacementKey, PlacementKey) = default;
};

/// The first 8 bytes, little-endian, of SHA-256("quire.placement.v1", tenant, collection, name).
/// Each part is preceded by its length in 4 bytes, little-endian.
[[nodiscard]] PlacementKey KeyOfDocument(std::string_view tenant, std::string_view collection,
                                         std::string_view name);
/// The first 8 bytes, little-endian, of the key of a chain's first segment.
[[nodiscard]] PlacementKey KeyOfChain(const SegmentKey& first_segment);
/// The same hash for the id of a node, so that both are spread alike.
[[nodiscard]] uint64_t HashOfNode(std::string_view node_id);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_PLACEMENT_PLACEMENT_KEY_H_
