// SPDX-License-Identifier: Apache-2.0
//
// Two kernels on one stream. A warp per KV head computes its cosine. Then one block lists the heads
// that turned, in order, so the host need not wait.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 128;
constexpr int64_t kListThreads = 1024;
constexpr int64_t kWarp = 32;

__global__ void __launch_bounds__(kThreads) CosineKernel(CorrectHeadsArgs args) {
  const int64_t lane = threadIdx.x % kWarp;
  const int64_t g = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (g >= args.batch * args.n_kv) return;  // The same for the whole warp.
  const int64_t group = args.n_q / args.n_kv;
  const int64_t d = args.head_dim;
  const HeadQueries head = QueriesOf(args, g);
  const float* __restrict__ q = head.now;
  const float* __restrict__ before = head.before;
  float mean = 0;
  for (int64_t a = 0; before != nullptr && a < group; ++a) {
    float dot = 0;
    float now_square = 0;
    float before_square = 0;
    for (int64_t c = a * d + lane; c < (a + 1) * d; c += kWarp) {
      dot += q[c] * before[c];
      now_square += q[c] * q[c];
      before_square += before[c] * before[c];
    }
    const float lengths =
        sqrtf(WarpReduce(now_square, Sum())) * sqrtf(WarpReduce(before_square, Sum()));
    mean += WarpReduce(dot, Sum()) / (lengths + 1e-12f);
  }
  if (lane == 0) args.cosines[g] = mean / static_cast<float>(group);
}

__global__ void __launch_bounds__(kListThreads) ListKernel(CorrectHeadsArgs args) {
  const int64_t heads = args.batch * args.n_kv;
  int written = 0;
  for (int64_t first = 0; first < heads; first += kListThreads) {
    const int64_t g = first + threadIdx.x;
    bool turned = false;
    if (g < heads) {
      const HeadQueries head = QueriesOf(args, g);
      turned = head.before == nullptr || !(args.cosines[g] >= head.tau);
    }
    const Prefix<int> place = BlockPrefix<int>(turned ? 1 : 0);
    if (turned) args.corrected[written + place.before] = static_cast<int32_t>(g);
    written += place.total;
  }
  if (threadIdx.x == 0) *args.n_corrected = written;
}

}  // namespace

OpStatus CorrectHeads(const CorrectHeadsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t heads = args.batch * args.n_kv;
  if (heads > 0) {
    const OpStatus status = Launch(CosineKernel, Grid(DivideUp(heads, kThreads / kWarp)),
                                   Grid(kThreads), 0, args.stream, args);
    if (status != OpStatus::kOk) return status;
  }
  return Launch(ListKernel, Grid(1), Grid(kListThreads), 0, args.stream, args);
}

}  // namespace quire::kernels::cuda
