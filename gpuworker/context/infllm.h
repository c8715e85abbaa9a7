// SPDX-License-Identifier: Apache-2.0
//
// Multi-InfLLM: InfLLM (arXiv 2402.04617) over several documents, as SamKV's authors compare with
// it. Each document reads its first block, its last two, and the middle blocks whose keys the
// question's mean query likes most. Nothing is computed but the question. A block's key is the mean
// of its tokens that are attended to most. Scores are sums over query heads, so that a block is
// read whole.
//
// Differences from InfLLM: blocks are SamKV's. Each document selects by itself. Keys stay at their
// places instead of one fixed distance; scores are of vectors without rotation.
// Thread-safety: pure functions. Errors: none; shapes are the caller's.
#ifndef QUIRE_GPUWORKER_CONTEXT_INFLLM_H_
#define QUIRE_GPUWORKER_CONTEXT_INFLLM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/context/samkv/samkv_selection.h"

namespace quire::worker {

struct InfLlmOptions {
  /// Middle blocks of each document. Over ten documents about what InfLLM reads of one text: 16
  /// blocks of 128 tokens.
  uint32_t blocks = 3;
};

/// `question` as for SelectBlocks. Earlier blocks go first among equal ones.
SelectedBlocks SelectInfLlmBlocks(std::span<const DocumentStatistics* const> documents,
                                  std::span<const std::vector<float>> question,
                                  const SamKvShape& shape, const InfLlmOptions& options = {});

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_INFLLM_H_
