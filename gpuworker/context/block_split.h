// SPDX-License-Identifier: Apache-2.0
//
// BlockSplit: a document in blocks as SamKV (arXiv 2508.11661) divides it. The first block is
// initial and the last two are local; those are always read. Blocks between are middle ones. A
// document of three blocks or fewer has none. The last block may be short.
// Thread-safety: plain value. Units: tokens of the document, from 0.
#ifndef QUIRE_GPUWORKER_CONTEXT_BLOCK_SPLIT_H_
#define QUIRE_GPUWORKER_CONTEXT_BLOCK_SPLIT_H_

#include <algorithm>
#include <cstdint>

namespace quire::worker {

struct BlockSplit {
  static constexpr uint32_t kLocalBlocks = 2;

  uint32_t tokens = 0;
  uint32_t block_tokens = 64;

  uint32_t blocks() const { return (tokens + block_tokens - 1) / block_tokens; }
  bool has_middle() const { return blocks() > 1 + kLocalBlocks; }
  /// Middle blocks are 1 .. middle_blocks().
  uint32_t middle_blocks() const { return has_middle() ? blocks() - 1 - kLocalBlocks : 0; }
  bool IsMiddle(uint32_t block) const { return block >= 1 && block <= middle_blocks(); }
  uint32_t Begin(uint32_t block) const { return std::min(tokens, block * block_tokens); }
  uint32_t End(uint32_t block) const { return std::min(tokens, (block + 1) * block_tokens); }
  /// First token of the local blocks.
  uint32_t LocalBegin() const { return Begin(blocks() - std::min(blocks(), kLocalBlocks)); }
  uint32_t BlockOf(uint32_t token) const { return token / block_tokens; }
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_BLOCK_SPLIT_H_
