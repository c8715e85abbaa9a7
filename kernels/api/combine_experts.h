// SPDX-License-Identifier: Apache-2.0
//
// combine_experts: the weighted sum of what the experts of a row computed.
//
// Tolerance: kCombineExpertsTolerance of sum_j |weights * parts|.
// Errors: kBadShape for k or dim < 1, rows < 0, a missing pointer.
#ifndef QUIRE_KERNELS_API_COMBINE_EXPERTS_H_
#define QUIRE_KERNELS_API_COMBINE_EXPERTS_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kCombineExpertsTolerance{.relative = 1e-6};

/// y[r][c] = sum_j weights[r][j] * parts[r][j][c]
struct CombineExpertsArgs {
  const float* parts = nullptr;    ///< [rows][k][dim]
  const float* weights = nullptr;  ///< [rows][k]
  float* y = nullptr;              ///< Out [rows][dim]
  int64_t rows = 0;
  int64_t k = 0;
  int64_t dim = 0;
  void* stream = nullptr;
};
using CombineExpertsFn = OpStatus (*)(const CombineExpertsArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_COMBINE_EXPERTS_H_
