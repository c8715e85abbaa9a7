// SPDX-License-Identifier: Apache-2.0
//
// matmul: a linear layer in f32.
//
// Tolerance: kMatmulTolerance of sum_i |x * weight| + |bias|.
// Errors: kBadShape for in or out < 1, rows < 0, a missing pointer; kUnsupported for a dimension
// beyond int32 where the table calls a BLAS.
#ifndef QUIRE_KERNELS_API_MATMUL_H_
#define QUIRE_KERNELS_API_MATMUL_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kMatmulTolerance{.relative = 1e-5};

/// y[r][o] = sum_i x[r][i] * weight[o][i] + bias[o]
struct MatmulArgs {
  const float* x = nullptr;       ///< [rows][in]
  const float* weight = nullptr;  ///< [out][in], as Hugging Face checkpoints hold it
  const float* bias = nullptr;    ///< [out] or null
  float* y = nullptr;             ///< Out [rows][out]
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  void* stream = nullptr;
};
using MatmulFn = OpStatus (*)(const MatmulArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_MATMUL_H_
