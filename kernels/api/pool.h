// SPDX-License-Identifier: Apache-2.0
//
// pool: group-consistent pooling: all query heads of a group use the same pages. FreeKV applies a
// softmax per query head and takes the mean over the group (kAvgSM). Order of calls: score, pool,
// topk; for kMaxQ and kAvgQ: pool_query, score with n_q = n_kv, pool.
//
// Softmax: over the row's pages. A NaN score takes no part in it and stays NaN; infinite maxima
// share the weight equally. A page is NaN for the group when it is NaN for any head.
//
// Tolerance: exact, all tables give the same number (the sign of a zero is unspecified), so that a
// worker and a server select the same pages. Without a softmax a mean is summed in f64 in the order
// of the heads, divided, and rounded once. With a softmax all is f32, no product and sum is one
// rounding, and for each head
//
//   x_j = factor * score_j       factor is 1, for kAvgSdM 1 / sqrt(d)
//   e_j = exp(x_j - max_j x_j)   SoftmaxExp of kernels/cpu/softmax.h, which is 0 below -87; at the
//                                maximum 1
//   sum of the e_j               e_j goes to partial sum j % 512, in ascending order from 0; then
//                                partial sums j and j + 256 are added, j and j + 128, ..., 0 and 1
//   w_j = (share / sum) * e_j    share is 1 for kMaxSM, 1 / G for a mean over the G heads
//
// A page's weight is the largest w_j of the heads, or their sum in the order of the heads.
//
// Errors: kBadShape for a size < 1 (n_pages may be 0; head_dim only where it is used) and a missing
// pointer. Also for n_q not a multiple of n_kv, and n_q != n_kv in a query mode of PoolArgs. Also
// kUnsupported for an unknown pooling, or for PoolQueryArgs with a mode that does not pool the
// query.
#ifndef QUIRE_KERNELS_API_POOL_H_
#define QUIRE_KERNELS_API_POOL_H_

#include <cstdint>

#include "kernels/api/status.h"

namespace quire::kernels {

/// How the heads of a group agree on one page list. Values are stable (configuration, wire).
enum class Pooling : uint8_t {
  kMaxQ = 1,    ///< Channel-wise maximum of the group's queries, then score.
  kAvgQ = 2,    ///< Mean of the group's queries, then score.
  kMaxS = 3,    ///< Maximum of raw scores.
  kAvgS = 4,    ///< Mean of raw scores.
  kMaxSM = 5,   ///< Maximum of softmax(scores).
  kAvgSM = 6,   ///< Mean of softmax(scores): FreeKV, the default.
  kAvgSdM = 7,  ///< Mean of softmax(scores / sqrt(d)); needs scores of scale 1.
};

constexpr bool IsKnown(Pooling pooling) {
  return pooling >= Pooling::kMaxQ && pooling <= Pooling::kAvgSdM;
}
/// True for the modes that pool the query before scoring.
constexpr bool PoolsQuery(Pooling pooling) {
  return pooling == Pooling::kMaxQ || pooling == Pooling::kAvgQ;
}

/// True for the modes that pool weights instead of scores.
constexpr bool TakesSoftmax(Pooling pooling) {
  return pooling == Pooling::kMaxSM || pooling == Pooling::kAvgSM || pooling == Pooling::kAvgSdM;
}

/// Scores of one sequence, in place of the fields of PoolArgs that have the same names.
struct PoolJob {
  const float* scores = nullptr;
  float* pooled = nullptr;
  int64_t n_pages = 0;
};

/// Pools the scores of query heads into one weight per KV head and page. For the two query modes,
/// PoolQuery has already pooled: the scores have n_q == n_kv rows, and are copied.
struct PoolArgs {
  const float* scores = nullptr;  ///< [n_q][n_pages], the candidates of the softmax
  float* pooled = nullptr;        ///< Out [n_kv][n_pages]
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t n_pages = 0;
  int64_t head_dim = 0;  ///< `d`; read by kAvgSdM only
  Pooling pooling = Pooling::kAvgSM;
  /// [n_jobs] or null: what is pooled, for several sequences at once. n_pages is the most of any
  /// job. A device does not check the jobs.
  const PoolJob* jobs = nullptr;
  int64_t n_jobs = 0;
  void* stream = nullptr;
};
using PoolFn = OpStatus (*)(const PoolArgs&);

/// Pools the queries of a group into one (kMaxQ, kAvgQ). Score the result with n_q = n_kv.
struct PoolQueryArgs {
  const float* q = nullptr;  ///< [n_q][d]
  float* pooled = nullptr;   ///< Out [n_kv][d]
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;  ///< `d`
  Pooling pooling = Pooling::kAvgQ;
  void* stream = nullptr;
};
using PoolQueryFn = OpStatus (*)(const PoolQueryArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_POOL_H_
