// SPDX-License-Identifier: Apache-2.0
//
// sample: chooses one token per row of logits by a given random number.
//
// Tokens are ordered by logit, ties by lower index. NaN and -infinity are never chosen; infinite
// logits share the weight equally. Weights are exp((logit - largest) / temperature).
//   1. top_k keeps the first top_k tokens of the order.
//   2. top_p keeps the shortest prefix of those whose weights sum to at least top_p of theirs.
//   3. The token is the first kept one, by index, at which the running sum of kept weights exceeds
//      uniform times their total; the last kept one if rounding leaves none.
//
// A temperature of 0 takes the first token of the order. A row without a number gives -1.
//
// Tolerance: sums are f32 or better, in any order. The token is that of the reference for a
// `uniform` and a `top_p` that are off by up to kSampleTolerance.
// Errors: kBadShape for rows < 0, vocab < 1 or beyond int32, temperature negative or not finite,
// top_k < 0, top_p outside (0, 1], a missing pointer. `uniform` is expected in [0, 1).
#ifndef QUIRE_KERNELS_API_SAMPLE_H_
#define QUIRE_KERNELS_API_SAMPLE_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kSampleTolerance{.absolute = 1e-4};

struct SampleArgs {
  const float* logits = nullptr;   ///< [rows][vocab]
  const float* uniform = nullptr;  ///< [rows] in [0, 1); unused with temperature 0
  int32_t* tokens = nullptr;       ///< Out [rows]
  int64_t rows = 0;
  int64_t vocab = 0;
  float temperature = 0.0f;
  int64_t top_k = 0;   ///< 0: all
  float top_p = 1.0f;  ///< 1: all
  void* stream = nullptr;
};
using SampleFn = OpStatus (*)(const SampleArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_SAMPLE_H_
