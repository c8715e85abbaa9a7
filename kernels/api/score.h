// SPDX-License-Identifier: Apache-2.0
//
// score: the relevance of a page to a query, from the page's digest alone. The score of kMinMax is
// that of Quest and FreeKV. Digests are one array, or blocks of pages anywhere (a server keeps one
// block per segment and layer).
//
//   kind (digest.h)   score / scale                                 is it a bound of q.k?
//   kMinMax           sum_c (q_c >= 0 ? q_c hi_c : q_c lo_c)        upper: sum_c max(q lo, q hi)
//   kMean             q.mean                                        no
//   kCentreDeviation  q.centre + sum_c |q_c| deviation_c            no
//   kCentreRadius     q.centre + |q| radius                         upper
//   kDisc             q.centre + sum_pairs |q_pair| radius_pair     upper
//   kRepresentatives  q.mean, as kMean                              no
//   kContent          q.mean, as kMean; q is without rotation, too  no
//
// Tolerance: exact, all tables give the same number (the sign of a zero is unspecified), so that
// all select the same pages. A score is a sum of terms a_i b_i in f32, in this order:
//
//   1. Term i goes to partial sum i % 8 by fused multiply-add, in ascending order from 0.
//   2. Partial sums j and j + 4 are added, then j and j + 2, then 0 and 1.
//   3. The term of kCentreRadius' radius goes to the sum by fused multiply-add.
//   4. The sum is multiplied by scale.
//
// The terms are the channels, and then the further elements of the kind, as they lie in the digest.
// The radius of kCentreRadius comes after all sums, since one more term would cost a whole step.
// Lengths of queries are computed in f64 and rounded once. NaN in a query or a digest makes the
// score NaN. Precondition: digests as the digest op writes them (lo <= hi, or both NaN). Errors:
// kBadShape for a size < 1 (n_pages may be 0), n_q not a multiple of n_kv, first_page < 0, and a
// missing pointer. Also for score_stride below n_pages and not 0, and pages beyond n_blocks *
// pages_per_block. For kDisc also kBadShape for a d or rotary_dim that is odd, or a rotary_dim
// outside 0..d. kUnsupported for an unknown kind or dtype.
#ifndef QUIRE_KERNELS_API_SCORE_H_
#define QUIRE_KERNELS_API_SCORE_H_

#include <cstdint>

#include "kernels/api/digest.h"
#include "kernels/api/status.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// Pages of one sequence, in place of the fields of ScoreArgs that have the same names.
struct ScoreJob {
  const float* q = nullptr;
  const void* digests = nullptr;
  float* scores = nullptr;
  int64_t score_stride = 0;
  int64_t first_page = 0;
  int64_t n_pages = 0;
};

/// scores[a][j] is the score of query a over the digest of page first_page + j and KV head a/G. E
/// below is DigestElements(kind, d).
struct ScoreArgs {
  const float* q = nullptr;       ///< [n_q][d]
  const void* digests = nullptr;  ///< [first_page + n_pages][n_kv][E] dtype; unused with blocks
  /// [n_blocks] or null; block b = [pages_per_block][n_kv][E] dtype, pages from b *
  /// pages_per_block
  const void* const* blocks = nullptr;
  int64_t n_blocks = 0;
  int64_t pages_per_block = 0;  ///< Pages of every block; the last one may hold fewer.
  int64_t first_page = 0;       ///< Skips pages (sinks, for example) without moving a pointer.
  float* scores = nullptr;      ///< Out [n_q] rows of n_pages, spaced score_stride
  int64_t score_stride = 0;     ///< Between rows, >= n_pages; 0: n_pages.
  int64_t n_pages = 0;
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;  ///< `d`
  /// 1 (FreeKV as published) or 1/sqrt(d). It changes how heads mix in a pooled softmax, not the
  /// order within a head.
  float scale = 1.0f;
  DType dtype = DType::kF16;  ///< Type of the digests.
  DigestKind kind = DigestKind::kMinMax;
  int64_t rotary_dim = 0;    ///< Read by kDisc only, as RopeArgs::rotary_dim
  bool interleaved = false;  ///< Read by kDisc only
  /// [n_jobs] or null: what is scored, for several sequences at once. n_pages is the most of any
  /// job. Blocks are for one sequence. A device does not check the jobs.
  const ScoreJob* jobs = nullptr;
  int64_t n_jobs = 0;
  void* stream = nullptr;
};
using ScoreFn = OpStatus (*)(const ScoreArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_SCORE_H_
