// SPDX-License-Identifier: Apache-2.0
//
// Which middle blocks of several documents a question reads (SamKV, arXiv 2508.11661, section 3.2).
// The server scores pages by content near the data; here is everything before and after. A page's
// score is the inner product of a query and its mean key, both without rotation. It is linear in
// keys, so that a block's score is the mean over its tokens' pages.
//
// Choices where the paper is silent: scores are sums over KV heads, with the query's mean over each
// group, so that a block is read whole. Every layer selects with its own query and block keys; the
// ratio comes from the stable layers alone. The cross-context filter keeps, of the blocks that
// documents retrieved, their number divided by the documents, rounded, at least one. Scores are
// normalised by each document's mean and deviation over its middle blocks. Thread-safety: pure
// functions. Errors: none; shapes are the caller's.
#ifndef QUIRE_GPUWORKER_CONTEXT_SAMKV_SAMKV_SELECTION_H_
#define QUIRE_GPUWORKER_CONTEXT_SAMKV_SAMKV_SELECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/context/block_split.h"
#include "gpuworker/context/samkv/retrieval_ratio.h"
#include "gpuworker/context/statistics/layer_statistics.h"
#include "gpuworker/model/checkpoint/config.h"

namespace quire::worker {

/// Data of a document beside its pages.
struct DocumentStatistics {
  BlockSplit split;
  std::vector<LayerStatistics> layers;
};

struct SamKvShape {
  uint32_t num_layers = 0;
  uint32_t num_query_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;

  static SamKvShape Of(const ModelConfig& model) {
    return {model.num_layers, model.num_query_heads, model.num_kv_heads, model.head_dim};
  }
};

struct SamKvOptions {
  /// Layers whose scores decide how much is read; empty for the last eighth, at least one.
  std::vector<uint32_t> stable_layers;
  WeakAnchor weak_anchor = WeakAnchor::kNothing;
};

/// Scores of every block: [documents][num_layers][blocks]. A document without middle blocks has
/// none.
using DocumentScores = std::vector<std::vector<std::vector<double>>>;

/// The queries that score `document`: its personalised one in each layer, the mean over each group,
/// [num_layers][n_kv][d]. `question` has one mean query for each layer, [num_layers][n_q][d],
/// without rotation.
std::vector<float> ScoringQueries(std::span<const DocumentStatistics* const> documents,
                                  std::span<const std::vector<float>> question,
                                  const SamKvShape& shape, size_t document);

/// Scores of a document's blocks in one layer, from those of its pages of `page_tokens` tokens. A
/// page on the border of two blocks counts in both, by its tokens there.
std::vector<double> ScoresOfBlocks(const BlockSplit& split, uint32_t page_tokens,
                                   std::span<const float> pages);

/// Middle blocks of each layer and document, ascending: [num_layers][documents].
using SelectedBlocks = std::vector<std::vector<std::vector<uint32_t>>>;

SelectedBlocks SelectBlocks(std::span<const DocumentStatistics* const> documents,
                            const DocumentScores& scores, const SamKvShape& shape,
                            const SamKvOptions& options = {});

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_SAMKV_SAMKV_SELECTION_H_
