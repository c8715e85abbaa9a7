// SPDX-License-Identifier: Apache-2.0
//
// Pooling over the query heads of a group: one block per KV head. The arithmetic is that of
// kernels/api/pool.h, in the same order, with every rounding explicit.
#include "kernels/cpu/checks.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
static_assert(kThreads == kSoftmaxSums, "a thread has one of a row's partial sums");

/// Maximum, or NaN if either is.
__device__ inline float MaxOrNaN(float a, float b) {
  if (IsNaN(a)) return a;
  return IsNaN(b) || b > a ? b : a;
}

struct SoftmaxShape {
  const float* scores;
  float* pooled;
  int64_t n, group;
  float factor, share;
  bool maximum;
  const PoolJob* jobs;  ///< A row of the grid each; null for none.
};

__device__ inline float ProductPlus(float a, float b, float c) {
  return __fadd_rn(__fmul_rn(a, b), c);
}

/// SoftmaxExp (kernels/cpu/softmax.cc).
__device__ inline float ExpOf(float x) {
  const float shifted = ProductPlus(x, kLog2E, kRoundToWhole);
  const float whole = __fadd_rn(shifted, -kRoundToWhole);
  const float rest = ProductPlus(whole, -kLn2Low, ProductPlus(whole, -kLn2High, x));
  float series = kExpTerm6;
  series = ProductPlus(series, rest, kExpTerm5);
  series = ProductPlus(series, rest, kExpTerm4);
  series = ProductPlus(series, rest, kExpTerm3);
  series = ProductPlus(series, rest, kExpTerm2);
  const float power = __fadd_rn(ProductPlus(series, __fmul_rn(rest, rest), rest), 1.0f);
  const float two_to_whole = FloatFromBits((FloatBits(shifted) << kMantissaBits) + kBitsOfOne);
  return x < kExpLeast ? 0.0f : __fmul_rn(power, two_to_whole);
}

/// Infinite maxima share the weight; infinity - infinity would be NaN.
__device__ inline float Weight(float value, float top) {
  return ExpOf(value == top ? 0.0f : __fadd_rn(value, -top));
}

/// Sums the threads' numbers, folded in halves.
__device__ inline float FoldSums(float mine) {
  __shared__ float sums[kThreads];
  __syncthreads();  // Wait until those of the previous call have been read.
  sums[threadIdx.x] = mine;
  __syncthreads();
  float parts[kWarps];
#pragma unroll
  for (int i = 0; i < kWarps; ++i) parts[i] = sums[32 * i + threadIdx.x % 32];
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
    for (int i = 0; i < distance; ++i) parts[i] = __fadd_rn(parts[i], parts[i + distance]);
  }
  return WarpReduce(parts[0], Sum());
}

// A thread handles every kThreads-th page, four at a time to overlap the loads.
__global__ void __launch_bounds__(kThreads) PoolSoftmaxKernel(SoftmaxShape shape) {
  if (shape.jobs != nullptr) {
    const PoolJob job = shape.jobs[blockIdx.y];
    shape.scores = job.scores;
    shape.pooled = job.pooled;
    shape.n = job.n_pages;
  }
  const float* __restrict__ row = shape.scores + blockIdx.x * shape.group * shape.n;
  float* __restrict__ pooled = shape.pooled + blockIdx.x * shape.n;
  for (int64_t h = 0; h < shape.group; ++h, row += shape.n) {
    float top = -Infinity();
#pragma unroll 4
    for (int64_t j = threadIdx.x; j < shape.n; j += kThreads) top = fmaxf(top, row[j]);
    top = __fmul_rn(shape.factor, BlockReduce(top, -Infinity(), Max()));
    float sum = 0;
#pragma unroll 4
    for (int64_t j = threadIdx.x; j < shape.n; j += kThreads) {
      const float weight = Weight(__fmul_rn(shape.factor, row[j]), top);
      sum = __fadd_rn(sum, IsNaN(weight) ? 0.0f : weight);
    }
    const float scale = shape.share / FoldSums(sum);
#pragma unroll 4
    for (int64_t j = threadIdx.x; j < shape.n; j += kThreads) {
      const float weight = __fmul_rn(scale, Weight(__fmul_rn(shape.factor, row[j]), top));
      if (h == 0) {
        pooled[j] = weight;
      } else {
        pooled[j] = shape.maximum ? MaxOrNaN(pooled[j], weight) : __fadd_rn(pooled[j], weight);
      }
    }
  }
}

/// Sets pooled[g][i] from the rows [group][width] of KV head g. It is the largest element i, NaN if
/// there is one, or the mean.
__global__ void __launch_bounds__(kThreads)
    PoolRowsKernel(const float* rows, float* pooled, int64_t group, int64_t width, bool maximum,
                   const PoolJob* jobs) {
  if (jobs != nullptr) {
    rows = jobs[blockIdx.y].scores;
    pooled = jobs[blockIdx.y].pooled;
    width = jobs[blockIdx.y].n_pages;
  }
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    const float* column = rows + blockIdx.x * group * width + i;
    double sum = column[0];
    float largest = column[0];
    for (int64_t h = 1; h < group; ++h) {
      sum += column[h * width];
      largest = MaxOrNaN(largest, column[h * width]);
    }
    pooled[blockIdx.x * width + i] =
        maximum ? largest : static_cast<float>(sum / static_cast<double>(group));
  }
}

}  // namespace

OpStatus Pool(const PoolArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t jobs = args.jobs != nullptr ? args.n_jobs : 1;
  if (args.n_pages == 0 || jobs == 0) return OpStatus::kOk;
  if (args.n_kv > kMaxGridX || jobs > kMaxGridYZ) return OpStatus::kUnsupported;
  const int64_t group = args.n_q / args.n_kv;
  if (!TakesSoftmax(args.pooling)) {  // With pooled queries, the mean of one row is its copy.
    return Launch(PoolRowsKernel, Grid(args.n_kv, jobs), Grid(kThreads), 0, args.stream,
                  args.scores, args.pooled, group, args.n_pages, args.pooling == Pooling::kMaxS,
                  args.jobs);
  }
  const SoftmaxShape shape{.scores = args.scores,
                           .pooled = args.pooled,
                           .n = args.n_pages,
                           .group = group,
                           .factor = SoftmaxFactor(args),
                           .share = HeadShare(args),
                           .maximum = args.pooling == Pooling::kMaxSM,
                           .jobs = args.jobs};
  return Launch(PoolSoftmaxKernel, Grid(args.n_kv, jobs), Grid(kThreads), 0, args.stream, shape);
}

OpStatus PoolQuery(const PoolQueryArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_kv > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(PoolRowsKernel, Grid(args.n_kv), Grid(kThreads), 0, args.stream, args.q,
                args.pooled, args.n_q / args.n_kv, args.head_dim, args.pooling == Pooling::kMaxQ,
                static_cast<const PoolJob*>(nullptr));
}

}  // namespace quire::kernels::cuda
