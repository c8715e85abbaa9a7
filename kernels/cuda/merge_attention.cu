// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/checks.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 128;

/// A block merges one row; every thread finds the weights for itself, which is cheaper than
/// sharing.
__global__ void __launch_bounds__(kThreads)
    MergeKernel(const float* __restrict__ parts, const float* __restrict__ part_lse,
                float* __restrict__ out, float* __restrict__ lse, int64_t n_parts, int64_t rows,
                int64_t d) {
  const int64_t row = blockIdx.x;
  float top = -Infinity();
  for (int64_t i = 0; i < n_parts; ++i) top = fmaxf(top, part_lse[i * rows + row]);
  float sum = 0;
  for (int64_t i = 0; i < n_parts; ++i) {
    const float part = part_lse[i * rows + row];
    if (part != -Infinity()) sum += expf(part - top);
  }
  for (int64_t c = threadIdx.x; c < d; c += kThreads) {
    float value = 0;
    for (int64_t i = 0; i < n_parts; ++i) {
      const float part = part_lse[i * rows + row];
      if (part != -Infinity()) value += expf(part - top) * parts[(i * rows + row) * d + c];
    }
    out[row * d + c] = sum == 0 ? 0.0f : value / sum;
  }
  if (threadIdx.x == 0 && lse != nullptr) lse[row] = sum == 0 ? -Infinity() : top + logf(sum);
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
