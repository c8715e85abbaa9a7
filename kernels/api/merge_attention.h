// SPDX-License-Identifier: Apache-2.0
//
// merge_attention: combines attention over disjoint sets of tokens (split KV, shared prefixes) from
// the results and log-sum-exps:
//
//   lse = log(sum_i exp(lse_i)),  out = sum_i exp(lse_i - lse) * out_i
//
// A part whose lse is -infinity saw no token, and its values are not used. If all are, out is 0 and
// lse -infinity. A NaN in a used part makes its row NaN.
// Tolerance: kMergeTolerance of the largest |out_i| of the row, over the used parts;
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
  float* out = nullptr;             ///< Out [rows][d]
  float* lse = nullptr;             ///< Out [rows] or null
  int64_t n_parts = 0;
  int64_t rows = 0;  ///< Query heads of all sequences.
  int64_t dim = 0;   ///< `d`
  void* stream = nullptr;
};
using MergeAttentionFn = OpStatus (*)(const MergeAttentionArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_MERGE_ATTENTION_H_
