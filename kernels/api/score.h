// SPDX-License-Identifier: Apache-2.0
//
// score: upper bound of q.k over every key of a page, from min/max digests (spec A.1.2, Quest).
// Digests are one array, or blocks of pages anywhere (a server keeps one block per segment and
// layer).
//
// Tolerance: 1e-5 * |scale| * sum_c |term|. NaN in a query or a digest makes the score NaN.
// Precondition: lo <= hi in every channel, or both NaN, as the digest op writes them.
// Errors: kBadShape for a size < 1 (n_pages may be 0), n_q not a multiple of n_kv, first_page < 0,
// score_stride below n_pages and not 0, pages beyond n_blocks * pages_per_block, a missing pointer.
#ifndef QUIRE_KERNELS_API_SCORE_H_
#define QUIRE_KERNELS_API_SCORE_H_

#include <cstdint>

#include "common/page/dtype.h"
#include "kernels/api/status.h"

namespace quire::kernels {

/// scores[a][j] = scale * sum_c (q[a][c] >= 0 ? q[a][c]*hi[c] : q[a][c]*lo[c]), where lo and hi are
/// the digest of page first_page + j and KV head a/G. As lo <= hi this is sum_c max(q*lo, q*hi).
struct ScoreArgs {
  const float* q = nullptr;       ///< [n_q][d]
  const void* digests = nullptr;  ///< [first_page + n_pages][n_kv][2][d] dtype; unused with blocks
  /// [n_blocks] or null; block b = [pages_per_block][n_kv][2][d] dtype, pages from b *
  /// pages_per_block
  const void* const* blocks = nullptr;
  int64_t n_blocks = 0;
  int64_t pages_per_block = 0;  ///< Pages of every block; the last one may hold fewer.
  int64_t first_page = 0;       ///< Skips pages (sinks, for example) without moving a pointer.
  float* scores = nullptr;      ///< out [n_q] rows of n_pages, spaced score_stride
  int64_t score_stride = 0;     ///< Between rows, >= n_pages; 0: n_pages.
  int64_t n_pages = 0;
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;       ///< d
  float scale = 1.0f;         ///< 1 (FreeKV as published) or 1/sqrt(d); spec A.1 (a)
  DType dtype = DType::kF16;  ///< of the digests
  void* stream = nullptr;
};
using ScoreFn = OpStatus (*)(const ScoreArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_SCORE_H_
