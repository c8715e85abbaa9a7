// SPDX-License-Identifier: Apache-2.0
//
// Floats as integers of the same order, and the k-th largest of them by counting digits.
#ifndef QUIRE_KERNELS_CUDA_RANK_CUH_
#define QUIRE_KERNELS_CUDA_RANK_CUH_

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {

/// Maps a score to a rank of the same order: both zeros are equal, NaN is 0.
__device__ inline uint32_t Rank(float score) {
  const uint32_t bits = FloatBits(score + 0.0f);  // -0 + 0 = +0
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
/// The score of a rank that is not 0.
__device__ inline float ScoreOfRank(uint32_t rank) {
  return FloatFromBits((rank & 0x80000000u) != 0 ? rank & 0x7fffffffu : ~rank);
}

/// Ranks that a selection keeps: every rank above `rank`, and the first `ties` by index of those
/// equal to it.
struct Cut {
  uint32_t rank;
  int ties;
};

/// The cut that keeps the k first of n scores, 1 <= k <= n, by four rounds over digits of 8 bits.
/// All threads of the block call it.
__device__ inline Cut FindCut(const float* scores, int64_t n, int k) {
  constexpr int kDigits = 256;
  constexpr int kWarp = 32;
  __shared__ int counts[kDigits];
  __shared__ uint32_t chosen;
  __shared__ int still;
  uint32_t prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();  // Wait until the counts and results of the round before have been read.
    for (unsigned i = threadIdx.x; i < kDigits; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const uint32_t rank = Rank(scores[i]);
      // Count ranks that agree with the prefix in the digits above this one; at first all of them.
      if (((static_cast<uint64_t>(rank) ^ prefix) >> (shift + 8)) == 0) {
        atomicAdd(&counts[(rank >> shift) & 0xffu], 1);
      }
    }
    __syncthreads();
    // The first warp adds up the counts from the largest digit down, 8 digits a lane. The lane
    // whose digits contain the k-th rank writes the result.
    if (threadIdx.x < kWarp) {
      constexpr int kEach = kDigits / kWarp;
      const int last = kDigits - 1 - static_cast<int>(threadIdx.x) * kEach;
      int mine[kEach];
      int sum = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) sum += mine[i] = counts[last - i];
      int up_to = sum;
#pragma unroll
      for (unsigned distance = 1; distance < kWarp; distance *= 2) {
        const int above = __shfl_up_sync(kAllLanes, up_to, distance);
        if (threadIdx.x >= distance) up_to += above;
      }
      int above = up_to - sum;
      if (above < k && k <= up_to) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if (above < k && k <= above + mine[i]) {
            chosen = prefix | static_cast<uint32_t>(last - i) << shift;
            still = k - above;
          }
          above += mine[i];
        }
      }
    }
    __syncthreads();
    prefix = chosen;
    k = still;
  }
  return {prefix, k};
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_RANK_CUH_
