// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/checks.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kEach = 4;  ///< Channels of a lane, kWarp apart.
constexpr int kChannels = kWarp * kEach;

/// Merges one row per block: each warp some of the parts, and then all warps together.
__global__ void __launch_bounds__(kThreads)
    MergeKernel(const float* __restrict__ parts, const float* __restrict__ part_lse,
                float* __restrict__ out, float* __restrict__ lse, int64_t n_parts, int64_t rows,
                int64_t d) {
  __shared__ float shares[kWarps][kChannels];
  const int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int warp = thread / kWarp;
  float top = -Infinity();
  for (int64_t i = thread; i < n_parts; i += kThreads) top = fmaxf(top, part_lse[i * rows + row]);
  top = BlockReduce(top, -Infinity(), Max());
  float sum = 0;
  for (int64_t i = thread; i < n_parts; i += kThreads) {
    const float part = part_lse[i * rows + row];
    if (part != -Infinity()) sum += expf(part - top);
  }
  sum = BlockReduce(sum, 0.0f, Sum());
  for (int64_t first = 0; first < d; first += kChannels) {
    float values[kEach] = {};
#pragma unroll 4
    for (int64_t i = warp; i < n_parts; i += kWarps) {
      const float part = part_lse[i * rows + row];
      const float weight = expf(part - top);
      const float* from = parts + (i * rows + row) * d;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int64_t c = first + lane + j * kWarp;
        const float value = c < d ? from[c] : 0.0f;
        // A part that saw nothing may hold anything.
        values[j] += part != -Infinity() ? weight * value : 0.0f;
      }
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) shares[warp][lane + j * kWarp] = values[j];
    __syncthreads();
    if (thread < kChannels && first + thread < d) {
      float value = 0;
      for (int w = 0; w < kWarps; ++w) value += shares[w][thread];
      out[row * d + first + thread] = sum == 0 ? 0.0f : value / sum;
    }
    __syncthreads();
  }
  if (thread == 0 && lse != nullptr) lse[row] = sum == 0 ? -Infinity() : top + logf(sum);
}

}  // namespace

OpStatus MergeAttention(const MergeAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  if (args.rows > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(MergeKernel, Grid(args.rows), Grid(kThreads), 0, args.stream, args.parts,
                args.part_lse, args.out, args.lse, args.n_parts, args.rows, args.dim);
}

}  // namespace quire::kernels::cuda
