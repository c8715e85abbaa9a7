// SPDX-License-Identifier: Apache-2.0
//
// The rotation of a pair of channels by kernels/api/rope.h: no product is fused with a sum.
#ifndef QUIRE_KERNELS_CUDA_ROTATE_CUH_
#define QUIRE_KERNELS_CUDA_ROTATE_CUH_

#include "kernels/cuda/runtime.cuh"

namespace quire::kernels::cuda {

__device__ inline void Rotate(float cos, float sin, float* a, float* b) {
  const float rotated = __fsub_rn(__fmul_rn(*a, cos), __fmul_rn(*b, sin));
  *b = __fadd_rn(__fmul_rn(*b, cos), __fmul_rn(*a, sin));
  *a = rotated;
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_ROTATE_CUH_
