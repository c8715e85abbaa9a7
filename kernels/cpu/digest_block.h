// SPDX-License-Identifier: Apache-2.0
//
// Location of a page's digest and of its scores, for all layouts of ScoreArgs.
#ifndef QUIRE_KERNELS_CPU_DIGEST_BLOCK_H_
#define QUIRE_KERNELS_CPU_DIGEST_BLOCK_H_

#include "kernels/api/score.h"

namespace quire::kernels {

struct DigestPage {
  const void* block = nullptr;  ///< [pages][n_kv][DigestElements]
  int64_t index = 0;            ///< Index of the page inside the block.
  int64_t rest = 0;             ///< Pages of the block from `index` to the last scored one.
};

/// Elements between the rows of `scores`.
inline int64_t ScoreStride(const ScoreArgs& args) {
  return args.score_stride == 0 ? args.n_pages : args.score_stride;
}

/// REQUIRES: arguments that passed Check, and `page` in [first_page, first_page + n_pages).
inline DigestPage FindDigestPage(const ScoreArgs& args, int64_t page) {
  const int64_t to_end = args.first_page + args.n_pages - page;
  if (args.blocks == nullptr) return {args.digests, page, to_end};
  const int64_t index = page % args.pages_per_block;
  const int64_t in_block = args.pages_per_block - index;
  return {args.blocks[page / args.pages_per_block], index, in_block < to_end ? in_block : to_end};
}

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_DIGEST_BLOCK_H_
