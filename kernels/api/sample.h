// SPDX-License-Identifier: Apache-2.0
//
// sample: chooses one token per row of logits, each row in its own way, by a given random number.
//
// Tokens are ordered by logit, ties by lower index. NaN and -infinity are never chosen; infinite
// logits share the weight equally. Weights are exp((logit - largest) / temperature).
//   1. top_k keeps the first top_k tokens of the order.
//   2. top_p keeps the shortest prefix of those whose weights sum to at least top_p of theirs.
//   3. The token is the first kept one, by index, at which the running sum of kept weights exceeds
//      uniform times their total; the last kept one if rounding leaves none.
//
// A temperature of 0 takes the first token of the order. A row without a number gives -1, and so
// does a draw that is out of range.
//
// Tolerance: sums are f32 or better, in any order. The token is that of the reference for a
// `uniform` and a `top_p` that are off by up to kSampleTolerance.
// Errors: kBadShape for rows < 0, vocab < 1 or beyond int32, a missing pointer.
#ifndef QUIRE_KERNELS_API_SAMPLE_H_
#define QUIRE_KERNELS_API_SAMPLE_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kSampleTolerance{.absolute = 1e-4};

/// How the token of one row is chosen.
struct SampleDraw {
  float temperature = 0.0f;  ///< Finite, at least 0.
  float top_p = 1.0f;        ///< In (0, 1]; 1: all
  int32_t top_k = 0;         ///< At least 0; 0: all
  float uniform = 0.0f;      ///< In [0, 1); unused with temperature 0.
};

struct SampleArgs {
  const float* logits = nullptr;      ///< [rows][vocab]
  const SampleDraw* draws = nullptr;  ///< [rows], or null: the first token of the order everywhere
  int32_t* tokens = nullptr;          ///< Out [rows]
  int64_t rows = 0;
  int64_t vocab = 0;
  void* stream = nullptr;
};
using SampleFn = OpStatus (*)(const SampleArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_SAMPLE_H_
