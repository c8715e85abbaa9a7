// SPDX-License-Identifier: Apache-2.0
//
// One block selects one row: a radix search for the k-th rank, then one pass that writes the chosen
// indices in order.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rank.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 1024;

/// Writes the kept indices, ascending.
__device__ void WriteKept(const float* scores, int64_t n, Cut cut, int32_t offset, int32_t* out) {
  int64_t written = 0;
  int ties = 0;
  for (int64_t first = 0; first < n; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const uint32_t rank = i < n ? Rank(scores[i]) : 0;
    const bool tie = i < n && rank == cut.rank;
    const Prefix<int> tied = BlockPrefix<int>(tie ? 1 : 0);
    const bool kept = i < n && (rank > cut.rank || (tie && ties + tied.before < cut.ties));
    const Prefix<int> place = BlockPrefix<int>(kept ? 1 : 0);
    if (kept) out[written + place.before] = static_cast<int32_t>(i) + offset;
    written += place.total;
    ties += tied.total;
  }
}

__global__ void __launch_bounds__(kThreads, 1) TopKKernel(TopKJob job, const TopKJob* jobs) {
  if (jobs != nullptr) job = jobs[blockIdx.y];
  const int64_t n = job.n_pages;
  const int64_t width = TopKWidth(job.k, n);
  const int32_t offset = job.index_offset;
  int32_t* const nan_counts = job.nan_counts;
  const float* const scores = job.scores + blockIdx.x * n;
  if (nan_counts != nullptr) {
    int count = 0;
    for (int64_t i = threadIdx.x; i < n; i += kThreads) count += Rank(scores[i]) == 0 ? 1 : 0;
    count = BlockReduce(count, 0, Sum());
    if (threadIdx.x == 0) nan_counts[blockIdx.x] = count;
  }
  int32_t* const out = job.indices + blockIdx.x * width;
  if (width == n) {
    for (int64_t i = threadIdx.x; i < n; i += kThreads) out[i] = static_cast<int32_t>(i) + offset;
  } else if (width > 0) {
    WriteKept(scores, n, FindCut(scores, n, static_cast<int>(width)), offset, out);
  }
}

}  // namespace

OpStatus TopK(const TopKArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t jobs = args.jobs != nullptr ? args.n_jobs : 1;
  const int64_t width = TopKWidth(args.k, args.n_pages);
  const bool nothing = args.jobs == nullptr && width == 0 && args.nan_counts == nullptr;
  if (jobs == 0 || nothing) return OpStatus::kOk;
  if (args.n_rows > kMaxGridX || jobs > kMaxGridYZ) return OpStatus::kUnsupported;
  const TopKJob job{.scores = args.scores,
                    .indices = args.indices,
                    .nan_counts = args.nan_counts,
                    .n_pages = args.n_pages,
                    .k = args.k,
                    .index_offset = args.index_offset};
  return Launch(TopKKernel, Grid(args.n_rows, jobs), Grid(kThreads), 0, args.stream, job,
                args.jobs);
}

}  // namespace quire::kernels::cuda
