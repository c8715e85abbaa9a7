// SPDX-License-Identifier: Apache-2.0
//
// Share of a chunk's cache that must be recomputed behind another prefix (Cache-Craft). It grows
// with the attention that went to chunks now missing or reordered. Attention is that of its
// prefill, the mean over heads, summed over layers. Thread-safety: pure functions. Units: shares in
// [0, 1]. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_CHUNK_IMPACT_H_
#define QUIRE_GPUWORKER_CONTEXT_CHUNK_IMPACT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/context/ceil_share.h"

namespace quire::worker {

/// A chunk before the one in question.
struct PrefixChunk {
  uint64_t id = 0;  ///< Equal for equal chunks; once in a prefix.
  uint32_t tokens = 0;
  double inter = 0;  ///< Attention from the chunk's tokens to those of this one.
};

struct ChunkAttention {
  uint32_t tokens = 0;
  double intra = 0;                 ///< Attention from the chunk's tokens to each other.
  std::vector<PrefixChunk> prefix;  ///< In the order of the prefill.
};

/// Returns CCI = 1 / (1 + e^(-a/b)), in [0.5, 1]. The attention per pair of tokens is a to the
/// prefix and b within the chunk. Returns 1 when b is 0.
double ChunkContextImpact(const ChunkAttention& chunk);

/// Beta: share of the attention to the prefix that went to chunks in `new_prefix` (ids). 1 without
/// a prefix, and without attention to it.
double PrefixOverlap(const ChunkAttention& chunk, std::span<const uint64_t> new_prefix);

/// gamma: the share of pairs of chunks in both prefixes whose order differs (Kendall's tau
/// distance, normalised). 0 when fewer than two are in both.
double OrderPenalty(const ChunkAttention& chunk, std::span<const uint64_t> new_prefix);

/// CFO = scale * CCI * (1 - beta (1 - gamma)), clamped to [0, 1]; `scale` is the published alpha.
double FixOverhead(const ChunkAttention& chunk, std::span<const uint64_t> new_prefix,
                   double scale = 1);

/// Tokens to recompute, of `tokens`: those that attend to the prefix most.
inline uint32_t RecomputedTokens(double fix_overhead, uint32_t tokens) {
  return CeilShare(fix_overhead, tokens);
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CHUNK_IMPACT_H_
