// SPDX-License-Identifier: Apache-2.0
//
// expert_matmul: a linear layer whose matrix each row chooses, in f32. The host needs not know the
// choice, so the op can be recorded.
//
// Tolerance: kMatmulTolerance of sum_i |x * weight|.
// Errors: kBadShape for n_experts, in, out or share < 1, and for rows < 0 or no multiple of share.
// Also for an expert out of range and a missing pointer. kUnsupported for a dimension beyond int32.
// A device that cannot read the list writes zeros for an expert out of range.
#ifndef QUIRE_KERNELS_API_EXPERT_MATMUL_H_
#define QUIRE_KERNELS_API_EXPERT_MATMUL_H_

#include <cstdint>

#include "kernels/api/matmul.h"
#include "kernels/api/status.h"

namespace quire::kernels {

/// y[r][o] = sum_i x[r / share][i] * weight[experts[r]][o][i]
struct ExpertMatmulArgs {
  const float* x = nullptr;          ///< [rows / share][in]
  const float* weight = nullptr;     ///< [n_experts][out][in]
  const int32_t* experts = nullptr;  ///< [rows], each in [0, n_experts)
  float* y = nullptr;                ///< Out [rows][out]
  int64_t rows = 0;
  int64_t share = 1;  ///< Rows of y that share a row of x.
  int64_t n_experts = 0;
  int64_t in = 0;
  int64_t out = 0;
  void* stream = nullptr;
};
using ExpertMatmulFn = OpStatus (*)(const ExpertMatmulArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_EXPERT_MATMUL_H_
