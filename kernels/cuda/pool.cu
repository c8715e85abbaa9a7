// SPDX-License-Identifier: Apache-2.0
//
// Pooling over the query heads of a group: one block a KV head.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 512;

/// Maximum in which a NaN wins.
__device__ inline float MaxOrNaN(float a, float b) {
  if (IsNaN(a)) return a;
  return IsNaN(b) || b > a ? b : a;
}

struct PoolShape {
  const float* scores;
  float* pooled;
  int64_t n, group;
  float factor;
  bool softmax, maximum;
};

/// exp(value - top), where infinite maxima share the weight: infinity - infinity would be NaN.
__device__ inline float Weight(float value, float top) {
  return value == top ? 1.0f : expf(value - top);
}

__global__ void __launch_bounds__(kThreads) PoolKernel(PoolShape shape) {
  const float* rows = shape.scores + blockIdx.x * shape.group * shape.n;
  float* tops = DynamicShared<float>();  // [group]
  float* inverses = tops + shape.group;  // [group]
  for (int64_t h = 0; shape.softmax && h < shape.group; ++h) {
    const float* row = rows + h * shape.n;
    float top = -Infinity();
    for (int64_t j = threadIdx.x; j < shape.n; j += kThreads) {
      top = fmaxf(top, shape.factor * row[j]);
    }
    top = BlockReduce(top, -Infinity(), Max());
    float sum = 0;
    for (int64_t j = threadIdx.x; j < shape.n; j += kThreads) {
      const float weight = Weight(shape.factor * row[j], top);
      if (!IsNaN(weight)) sum += weight;
    }
    sum = BlockReduce(sum, 0.0f, Sum());
    if (threadIdx.x == 0) {
      tops[h] = top;
      inverses[h] = 1.0f / sum;
    }
  }
  __syncthreads();
  for (int64_t j = threadIdx.x; j < shape.n; j += kThreads) {
    double sum = 0;
    float largest = -Infinity();
    for (int64_t h = 0; h < shape.group; ++h) {
      float value = rows[h * shape.n + j];
      if (shape.softmax) value = Weight(shape.factor * value, tops[h]) * inverses[h];
      sum += value;
      largest = MaxOrNaN(largest, value);
    }
    shape.pooled[blockIdx.x * shape.n + j] =
        shape.maximum ? largest : static_cast<float>(sum / static_cast<double>(shape.group));
  }
}

__global__ void __launch_bounds__(kThreads)
    PoolQueryKernel(const float* __restrict__ q, float* __restrict__ pooled, int64_t group,
                    int64_t d, bool maximum) {
  for (int64_t c = threadIdx.x; c < d; c += kThreads) {
    const float* column = q + blockIdx.x * group * d + c;
    double sum = column[0];
    float largest = column[0];
    for (int64_t h = 1; h < group; ++h) {
      sum += column[h * d];
      largest = MaxOrNaN(largest, column[h * d]);
    }
    pooled[blockIdx.x * d + c] =
        maximum ? largest : static_cast<float>(sum / static_cast<double>(group));
  }
}

}  // namespace

OpStatus Pool(const PoolArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_pages == 0) return OpStatus::kOk;
  const Pooling mode = args.pooling;
  PoolShape shape{args.scores, args.pooled, args.n_pages, args.n_q / args.n_kv, 1.0f, false, false};
  shape.softmax = TakesSoftmax(mode);
  shape.maximum = mode == Pooling::kMaxS || mode == Pooling::kMaxSM;
  if (mode == Pooling::kAvgSdM) shape.factor = 1.0f / sqrtf(static_cast<float>(args.head_dim));
  const int64_t shared = 2 * shape.group * 4;
  if (shared > kSharedBytes / 2 || args.n_kv > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(PoolKernel, Grid(args.n_kv), Grid(kThreads), static_cast<size_t>(shared),
                args.stream, shape);
}

OpStatus PoolQuery(const PoolQueryArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_kv > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(PoolQueryKernel, Grid(args.n_kv), Grid(kThreads), 0, args.stream, args.q,
                args.pooled, args.n_q / args.n_kv, args.head_dim, args.pooling == Pooling::kMaxQ);
}

}  // namespace quire::kernels::cuda
