// SPDX-License-Identifier: Apache-2.0
//
// Sums, maxima and counts over a warp or a block. Blocks are one-dimensional, of whole warps. All
// threads call, and all get the result. Results do not depend on timing.
#ifndef QUIRE_KERNELS_CUDA_REDUCE_CUH_
#define QUIRE_KERNELS_CUDA_REDUCE_CUH_

#include "kernels/cuda/runtime.cuh"

namespace quire::kernels::cuda {

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// Ignores NaN.
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Min {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

template <typename T, typename Op>
__device__ T WarpReduce(T value, Op op) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

template <typename T, typename Op>
__device__ T BlockReduce(T value, T none, Op op) {
  __shared__ T parts[32];
  const unsigned lane = threadIdx.x % 32;
  value = WarpReduce(value, op);
  __syncthreads();  // Wait until the parts of the previous call have been read.
  if (lane == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  return WarpReduce(lane < blockDim.x / 32 ? parts[lane] : none, op);
}

template <typename T>
struct Prefix {
  T before;  ///< Sum over the threads before this one.
  T total;
};
template <typename T>
__device__ Prefix<T> BlockPrefix(T value) {
  __shared__ T parts[32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  T up_to = value;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const T below = __shfl_up_sync(kAllLanes, up_to, distance);
    if (lane >= distance) up_to += below;
  }
  T before = __shfl_up_sync(kAllLanes, up_to, 1);
  if (lane == 0) before = 0;
  __syncthreads();  // Wait until the parts of the previous call have been read.
  if (lane == 31) parts[warp] = up_to;
  __syncthreads();
  T total = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    if (w < warp) before += parts[w];
    total += parts[w];
  }
  return {before, total};
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_REDUCE_CUH_
