// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts: a warp chooses the experts of a row, a warp multiplies a row by a few rows
// of its expert's matrix. Every row reads its matrix for itself, as suits decoding.
#include <algorithm>

#include "kernels/cpu/checks.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rank.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 128;
constexpr int64_t kMaxBlocks = 65535;  ///< Most blocks of loops over elements, which stride.
constexpr int kWarp = 32;
constexpr int kOuts = 2;  ///< Outputs of a warp.

struct Largest {
  __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

/// A warp for each row. The experts chosen so far are those that come before the last of them, so
/// nothing is marked.
__global__ void __launch_bounds__(kWarp) ChooseKernel(ChooseExpertsArgs args) {
  const int n = static_cast<int>(args.n_experts);
  const auto lane = static_cast<int>(threadIdx.x);
  const float* logits = args.logits + blockIdx.x * args.n_experts;
  float top = -Infinity();
  for (int e = lane; e < n; e += kWarp) top = fmaxf(top, logits[e]);
  top = WarpReduce(top, Max());
  float all = 0;
  float nan = 0;  // NaN if a logit is.
  for (int e = lane; e < n; e += kWarp) {
    all += expf(logits[e] - top);
    nan += IsNaN(logits[e]) ? logits[e] : 0.0f;
  }
  all = WarpReduce(all, Sum());
  nan = WarpReduce(nan, Sum());
  float kept = 0;
  uint32_t rank = 0xffffffffu;
  int expert = -1;
  for (int64_t j = 0; j < args.k; ++j) {
    const uint32_t last_rank = rank;
    const int last = expert;
    const auto follows = [&](int e) {
      const uint32_t own = Rank(logits[e]);
      return own < last_rank || (own == last_rank && e > last);
    };
    rank = 0;
    for (int e = lane; e < n; e += kWarp) {
      if (follows(e)) rank = Largest()(rank, Rank(logits[e]));
    }
    rank = WarpReduce(rank, Largest());
    expert = n;
    for (int e = lane; e < n; e += kWarp) {
      if (expert == n && follows(e) && Rank(logits[e]) == rank) expert = e;
    }
    expert = WarpReduce(expert, Min());
    const float weight = expf(logits[expert] - top);
    kept += weight;
    if (lane == 0) {
      args.experts[blockIdx.x * args.k + j] = expert;
      args.weights[blockIdx.x * args.k + j] = weight;
    }
  }
  const float sum = (args.normalize ? kept : all) + nan;
  if (lane != 0) return;
  for (int64_t j = 0; j < args.k; ++j) args.weights[blockIdx.x * args.k + j] /= sum;
}

__global__ void __launch_bounds__(kThreads) ExpertMatmulKernel(ExpertMatmulArgs args) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp * kOuts;
  if (first >= args.out) return;  // The same for the whole warp.
  const int64_t r = blockIdx.y;
  const int64_t expert = args.experts[r];
  const bool there = expert >= 0 && expert < args.n_experts;
  const float* x = args.x + r / args.share * args.in;
  const float* weight = args.weight + (there ? expert : 0) * args.out * args.in;
  float sums[kOuts] = {};
  for (int64_t i = threadIdx.x % kWarp; i < args.in; i += kWarp) {
#pragma unroll
    for (int o = 0; o < kOuts; ++o) {  // Indices beyond the last are clamped to it.
      const int64_t out = first + o < args.out ? first + o : args.out - 1;
      sums[o] += x[i] * weight[out * args.in + i];
    }
  }
#pragma unroll
  for (int o = 0; o < kOuts; ++o) {
    const float sum = WarpReduce(sums[o], Sum());
    if (threadIdx.x % kWarp != 0 || first + o >= args.out) continue;
    args.y[r * args.out + first + o] = there ? sum : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads) CombineKernel(CombineExpertsArgs args) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const int64_t n = args.rows * args.dim;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t row = i / args.dim * args.k;
    float sum = 0;
    for (int64_t j = 0; j < args.k; ++j) {
      sum += args.weights[row + j] * args.parts[(row + j) * args.dim + i % args.dim];
    }
    args.y[i] = sum;
  }
}

}  // namespace

OpStatus ChooseExperts(const ChooseExpertsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  if (args.rows > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(ChooseKernel, Grid(args.rows), Grid(kWarp), 0, args.stream, args);
}

OpStatus ExpertMatmul(const ExpertMatmulArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  const int64_t blocks = DivideUp(args.out, kThreads / kWarp * kOuts);
  if (blocks > kMaxGridX || args.rows > kMaxGridYZ) return OpStatus::kUnsupported;
  return Launch(ExpertMatmulKernel, Grid(blocks, args.rows), Grid(kThreads), 0, args.stream, args);
}

OpStatus CombineExperts(const CombineExpertsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  const int64_t blocks = std::min(DivideUp(args.rows * args.dim, kThreads), kMaxBlocks);
  return Launch(CombineKernel, Grid(blocks), Grid(kThreads), 0, args.stream, args);
}

}  // namespace quire::kernels::cuda
