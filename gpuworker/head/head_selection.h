// SPDX-License-Identifier: Apache-2.0
//
// Selections from a retrieval head's weights, one for each KV head of the model; all layers use
// them. Pure functions. Units: tokens, pages.
//
// Heads of a group agree by the maximum of their weights, which are after the softmax: no head's
// range decides. MHA has groups of one, MQA and MLA one group of all. Where the draft has other
// heads than the model, one number divides the other: heads are merged or repeated in proportion.
// Otherwise all heads make one set, which serves every KV head.
//
// Higher weights go first, lower places at equal weights. A weight that is not a number goes last.
#ifndef QUIRE_GPUWORKER_HEAD_HEAD_SELECTION_H_
#define QUIRE_GPUWORKER_HEAD_HEAD_SELECTION_H_

#include <cstdint>
#include <span>
#include <vector>

namespace quire::worker {

/// [num_kv_heads][length] weights of groups, from `weights`, [draft_query_heads][length].
/// `draft_kv_heads` divides draft_query_heads.
std::vector<float> GroupWeights(std::span<const float> weights, uint32_t draft_query_heads,
                                uint32_t draft_kv_heads, uint32_t num_kv_heads);

/// How many of a head's places are taken, and which of them whatever their weights.
struct HeadBudget {
  uint64_t budget = 0;  ///< All of them together.
  uint64_t sinks = 0;   ///< First ones.
  uint64_t window = 0;  ///< Last ones.
};

/// Places of one head that are selected by `weights`, ascending: min(budget, places) of them.
/// Sinks and window are taken first, also beyond the budget.
std::vector<uint32_t> SelectPlaces(std::span<const float> weights, const HeadBudget& budget);

/// Weights of pages: the largest of their tokens'. The last page may be short.
std::vector<float> PageWeights(std::span<const float> weights, uint32_t page_tokens);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_HEAD_HEAD_SELECTION_H_
