// SPDX-License-Identifier: Apache-2.0
//
// LayerStatistics: what SamKV (arXiv 2508.11661, section 3.1 and appendix A.1) keeps of one layer
// of a document that was prefilled alone. Vectors are without rotation, so that documents compare
// by content and not by distance.
//
// Choices where the paper is silent: attention is the mean over query heads. A block's
// representative is the token with the largest mean attention from later queries, of which it needs
// 16; the earlier one of equal ones. Exponents of every middle token with enough points are samples
// for outliers. Thread-safety: pure function. Errors: none; shapes are the caller's.
#ifndef QUIRE_GPUWORKER_CONTEXT_STATISTICS_LAYER_STATISTICS_H_
#define QUIRE_GPUWORKER_CONTEXT_STATISTICS_LAYER_STATISTICS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/page/rope_rotation.h"
#include "gpuworker/context/block_split.h"

namespace quire::worker {

/// A middle block as its representative token shows it.
struct BlockImportance {
  double exponent = 0;   ///< The power law's alpha; smaller is more important.
  double attention = 0;  ///< Mean attention from later queries.
};

struct LayerStatistics {
  std::vector<float> local_query;       ///< [n_q][d], mean query of the local blocks
  std::vector<BlockImportance> middle;  ///< [middle_blocks]
  /// [middle_blocks][n_kv][d], mean keys of the kRepresentatives tokens of each block with the
  /// largest mean attention from later queries, earlier ones first among equal ones.
  std::vector<float> representative_keys;
  uint32_t most = 0;                     ///< The most important middle block; 0 without any.
  uint32_t least = 0;                    ///< The least important one; 0 without any.
  std::vector<uint32_t> outlier_tokens;  ///< Middle tokens to recompute, ascending.
};

inline constexpr uint32_t kRepresentatives = 4;

/// Sets `most` and `least` by `middle`: the smallest exponent, and the smallest attention.
void RankMiddle(LayerStatistics* statistics);

/// Tokens whose queries stand for all: at most `max_queries`, evenly spaced, the last among them.
/// The cost of statistics is their number times the document's length.
std::vector<uint32_t> SampledTokens(uint32_t tokens, uint32_t max_queries = 256);

/// One layer of a whole document, as attention saw it.
struct PrefilledLayer {
  const float* keys = nullptr;             ///< [tokens][n_kv][d], rotated
  const float* sampled_queries = nullptr;  ///< [sampled tokens][n_q][d], rotated
  const float* local_queries = nullptr;    ///< [tokens of the local blocks][n_q][d], rotated
  uint64_t first_position = 0;             ///< Position of the first token.
  uint32_t num_query_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  bool interleaved = false;  ///< RopeSpec::interleaved
};

LayerStatistics StatisticsOf(const PrefilledLayer& layer, const BlockSplit& split,
                             std::span<const uint32_t> sampled_tokens, const RopeRotation& rope);

/// Turns `rows` rows of `heads` heads to position 0; row i is at `first_position` + i.
void Unrotate(float* vectors, uint32_t rows, uint32_t heads, uint32_t head_dim,
              uint64_t first_position, bool interleaved, const RopeRotation& rope);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_STATISTICS_LAYER_STATISTICS_H_
