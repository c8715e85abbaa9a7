// SPDX-License-Identifier: Apache-2.0
//
// merge_attention: one attention out of several over disjoint sets of tokens (split KV, shared
// prefixes), from their results and log-sum-exps:
//
//   lse = log(sum_i exp(lse_i)),  out = sum_i exp(lse_i - lse) * out_i
//
// A part whose lse is -infinity saw no token, and its values are not used. Without any other, out
// is 0 and lse -infinity. A NaN in a part that is used makes its row NaN.
// Tolerance: kMergeTolerance of the largest |out_i| of the row, over the parts that are used;
// kMergeLseTolerance.
// Errors: kBadShape for n_parts or d < 1, rows < 0, a missing pointer.
#ifndef QUIRE_KERNELS_API_MERGE_ATTENTION_H_
#define QUIRE_KERNELS_API_MERGE_ATTENTION_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kMergeTolerance{.relative = 1e-5};
inline constexpr Tolerance kMergeLseTolerance{.absolute = 1e-5, .relative = 1e-6};

struct MergeAttentionArgs {
  const float* parts = nullptr;     ///< [n_parts][rows][d]
  const float* part_lse = nullptr;  ///< [n_parts][rows], natural logarithm
  float* out = nullptr;             ///< out [rows][d]
  float* lse = nullptr;             ///< out [rows] or null
  int64_t n_parts = 0;
  int64_t rows = 0;  ///< query heads, of all sequences
  int64_t dim = 0;   ///< d
  void* stream = nullptr;
};
using MergeAttentionFn = OpStatus (*)(const MergeAttentionArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_MERGE_ATTENTION_H_
