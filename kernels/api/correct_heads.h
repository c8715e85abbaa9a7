// SPDX-License-Identifier: Apache-2.0
//
// correct_heads: lists, without gaps, the KV heads whose query turned since the last step. FreeKV
// selects the pages of these heads again before attention (section 3.3 of the paper, query-based
// identification).
//
//   C_a = q_a . before_a / (|q_a| |before_a| + 1e-12)    per query head
//   C_g = mean of C_a over the group                     per KV head
//   g is corrected unless C_g >= tau: a NaN corrects, and so does a query of zeros (C = 0)
//
// Precondition: squared lengths of the queries are finite in f32, or the cosine may be NaN or 0.
// Tolerance: kCosineTolerance; the list is exact for the cosines that the table gives. Errors:
// kBadShape for a size < 1 (batch may be 0), n_q not a multiple of n_kv, or batch * n_kv beyond
// int32. Also for a NaN tau and a missing pointer (n_corrected is always needed).
#ifndef QUIRE_KERNELS_API_CORRECT_HEADS_H_
#define QUIRE_KERNELS_API_CORRECT_HEADS_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"
#include "quire/dtype.h"

namespace quire::kernels {

inline constexpr Tolerance kCosineTolerance{.absolute = 1e-5};

/// The queries of one KV head, now and before, that lie anywhere.
struct HeadQueries {
  const float* now = nullptr;     ///< [G][d]
  const float* before = nullptr;  ///< [G][d]; null: the head has none, and is corrected (C = 0)
  float tau = 0.8f;               ///< In place of that of the arguments.
};

struct CorrectHeadsArgs {
  const float* q = nullptr;       ///< [batch][n_q][d] of this step
  const float* before = nullptr;  ///< [batch][n_q][d] of the step before
  float* cosines = nullptr;       ///< Out [batch][n_kv], C_g
  /// Out [batch * n_kv], of which the first *n_corrected are written: b * n_kv + g, ascending
  int32_t* corrected = nullptr;
  int32_t* n_corrected = nullptr;  ///< Out [1]
  int64_t batch = 1;               ///< Sequences
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;  ///< `d`
  float tau = 0.8f;      ///< Above 1: every head is corrected; below -1: none but NaN
  /// [batch * n_kv] or null: the queries of each head; q, before and tau are unused then.
  const HeadQueries* heads = nullptr;
  void* stream = nullptr;
};
using CorrectHeadsFn = OpStatus (*)(const CorrectHeadsArgs&);

/// The queries of head `g` of batch * n_kv, as the arguments have them.
QUIRE_HOST_DEVICE inline HeadQueries QueriesOf(const CorrectHeadsArgs& args, int64_t g) {
  if (args.heads != nullptr) return args.heads[g];
  const int64_t row = g * (args.n_q / args.n_kv) * args.head_dim;
  return {args.q + row, args.before + row, args.tau};
}

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_CORRECT_HEADS_H_
