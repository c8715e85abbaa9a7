// SPDX-License-Identifier: Apache-2.0
//
// Share of a document's middle blocks that a question reads (SamKV, arXiv 2508.11661, sections 3.1
// and 3.2). Eq. 1 biases the question's query by the other documents' queries. Eq. 2 and 3 give the
// share from the scores of three keys with that query. The anchor is the mean of the first block
// and the last two, which are always read. The other keys are the middle blocks that the document
// attends to most and least. Thread-safety: pure functions. Errors: none; shapes are the caller's.
#ifndef QUIRE_GPUWORKER_CONTEXT_SAMKV_RETRIEVAL_RATIO_H_
#define QUIRE_GPUWORKER_CONTEXT_SAMKV_RETRIEVAL_RATIO_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/context/ceil_share.h"

namespace quire::worker {

/// Eq. 1, for document `document` of D. Adds to the question's `query` [n] the mean of the other
/// documents' local queries. Each is weighted by its |cosine| with `query`. `local_queries` is
/// [D][n], all at the position of `query`. One cosine is over all n channels. A vector of length 0
/// has cosine 0; a document alone has `query` itself.
std::vector<float> PersonalisedQuery(std::span<const float> query,
                                     std::span<const float> local_queries, size_t document);

/// Inner products of one layer's keys with the personalised query.
struct BlockScores {
  double anchor = 0;
  double most = 0;   ///< Score of the most important middle block.
  double least = 0;  ///< Score of the least important one.
};

/// The ratio when the anchor scores no more than the least important block.
enum class WeakAnchor : uint8_t {
  kNothing,   ///< 0, as published.
  kSaturate,  ///< 1, since every block scores more; still 0 above the most important one.
};

/// Eq. 2: (most - anchor) / (most - least). 0 when the anchor is outside (least, most], and for
/// NaN.
double LayerRatio(const BlockScores& scores, WeakAnchor weak_anchor = WeakAnchor::kNothing);

/// Eq. 3: the mean of LayerRatio over the stable layers, 0 without any.
double RetrievalRatio(std::span<const BlockScores> layers,
                      WeakAnchor weak_anchor = WeakAnchor::kNothing);

/// Middle blocks to read, of `middle_blocks`.
inline uint32_t RetrievalQuota(double ratio, uint32_t middle_blocks) {
  return CeilShare(ratio, middle_blocks);
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_SAMKV_RETRIEVAL_RATIO_H_
