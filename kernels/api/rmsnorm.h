// SPDX-License-Identifier: Apache-2.0
//
// rmsnorm: root-mean-square normalisation of rows. Per-head QK-norm (Qwen3) is the same op with
// rows = t * heads and dim = d.
//
// Tolerance: kRmsNormTolerance. Errors: kBadShape for dim < 1, rows < 0, eps < 0 or NaN, a stride
// below dim, a missing pointer.
#ifndef QUIRE_KERNELS_API_RMSNORM_H_
#define QUIRE_KERNELS_API_RMSNORM_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kRmsNormTolerance{.relative = 1e-5};

/// y[r][c] = x[r][c] / sqrt(mean_c(x[r][c]^2) + eps) * weight[c]
struct RmsNormArgs {
  const float* x = nullptr;       ///< [rows][dim]
  const float* weight = nullptr;  ///< [dim]
  float* y = nullptr;             ///< Out [rows][dim]; may be x
  int64_t rows = 0;               ///< Tokens, or tokens * heads for QK-norm
  int64_t dim = 0;
  int64_t stride = 0;  ///< Distance of rows of x and of y in elements; 0: dim
  float eps = 1e-5f;   ///< >= 0
  void* stream = nullptr;
};
using RmsNormFn = OpStatus (*)(const RmsNormArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_RMSNORM_H_
