// SPDX-License-Identifier: Apache-2.0
//
// Values of copies between nodes: a chain as its holder describes it, and a segment as it is
// stored. Units stay encoded on their way, so that a copy has the bytes of its source.
#ifndef QUIRE_CLUSTER_REPLICA_CHAIN_COPY_H_
#define QUIRE_CLUSTER_REPLICA_CHAIN_COPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"

namespace quire::cluster {

struct ChainDescription {
  KvSpec spec;
  std::vector<SegmentKey> keys;  ///< In order.
};

/// Units of a segment from one on.
struct UnitRun {
  std::vector<TokenId> tokens;        ///< All tokens of the segment.
  std::string codec;                  ///< Codec of the units, as in "int8+zstd".
  Payload units;                      ///< Encoded units, in order [layer][page][head].
  std::vector<uint32_t> unit_crc32c;  ///< One for each unit of the run.
};

/// A whole segment.
struct SegmentCopy {
  std::vector<TokenId> tokens;
  std::string codec;
  std::vector<std::byte> units;            ///< [layers][pages][n_kv] encoded units.
  std::vector<uint32_t> unit_crc32c;       ///< One for each unit.
  std::vector<std::byte> representatives;  ///< As PageStore has them; empty without.
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_CHAIN_COPY_H_
