// SPDX-License-Identifier: Apache-2.0
//
// matmul: a linear layer in f32, or one for each head of the rows, side by side.
//
// Tolerance: kMatmulTolerance of sum_i |x * weight| + |bias|.
// Errors: kBadShape for in, out or heads < 1, rows < 0, a missing pointer; kUnsupported for a
// dimension beyond int32 where the table calls a BLAS.
#ifndef QUIRE_KERNELS_API_MATMUL_H_
#define QUIRE_KERNELS_API_MATMUL_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kMatmulTolerance{.relative = 1e-5};

/// y[r][h][o] = sum_i x[r][h][i] * weight[h][o][i] + bias[h][o]
struct MatmulArgs {
  const float* x = nullptr;       ///< [rows][heads][in]
  const float* weight = nullptr;  ///< [heads][out][in], as Hugging Face checkpoints hold a head's
  const float* bias = nullptr;    ///< [heads][out] or null
  float* y = nullptr;             ///< Out [rows][heads][out]
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t heads = 1;  ///< Linear layers side by side; 1 for an ordinary one.
  void* stream = nullptr;
};
using MatmulFn = OpStatus (*)(const MatmulArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_MATMUL_H_
