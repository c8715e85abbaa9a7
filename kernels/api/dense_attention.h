// SPDX-License-Identifier: Apache-2.0
//
// dense_attention: causal attention of t query tokens over n contiguous keys. By default the last t
// keys are their own (prefill, also of a chunk after a reused prefix).
//
// For few query tokens a device splits the keys over several blocks and merges the results. Each
// block needs AttentionSplitBytes(t * n_q, channels of a value) of the workspace. The split follows
// from the sizes alone, not from last_key. A recorded launch may therefore cover memory with room
// for more keys. The CPU needs no workspace.
//
// A window hides keys that are too far before a row's last one, and a soft cap bounds scores (Gemma
// 2). Both are off by default.
//
// Precondition: all n rows of k and v are finite, or with last_key those up to the last visible
// one. A hidden row may be multiplied by a zero weight. Tolerance: kAttentionTolerance
// (tolerance.h). The CPU may allocate scratch. Errors: kBadShape for a size < 1 (t may be 0), t > n
// without last_key, or last_key out of range. Also for value_dim outside 1..d without v, n_q that
// is no multiple of n_kv, a scale that is not finite, a negative window or soft cap. Also for a
// missing pointer, and a workspace of negative size. A device that cannot read last_key returns
// zeros for a row whose last key is out of range.
#ifndef QUIRE_KERNELS_API_DENSE_ATTENTION_H_
#define QUIRE_KERNELS_API_DENSE_ATTENTION_H_

#include <cstdint>

#include "kernels/api/paged_attention.h"
#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// Row i attends to keys first_key(i)..last_key(i). last_key(i) is n - t + i unless `last_key`
/// gives it. first_key(i) is 0, or last_key(i) - window + 1 where that is later.
struct DenseAttentionArgs {
  const float* q = nullptr;  ///< [t][n_q][d], rotated like the keys
  const void* k = nullptr;   ///< [n][n_kv][d] dtype, in the order of positions
  /// [n][n_kv][d] dtype, or null with value_dim: values are the first channels of k (MLA)
  const void* v = nullptr;
  /// [t] or null: last visible key of each row, 0..n-1, in any order, for sparse prefill
  const int32_t* last_key = nullptr;
  float* out = nullptr;  ///< Out [t][n_q][channels of a value]
  int64_t t = 0;         ///< Query rows; t <= n without last_key
  int64_t n = 0;         ///< Keys
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;   ///< `d`
  int64_t value_dim = 0;  ///< Channels of a value, at most d, without v; otherwise d whatever it is
  float scale = 0.0f;     ///< Usually 1/sqrt(d)
  float soft_cap = 0.0f;  ///< Cap c > 0: scores s = scale * q.k become c * tanh(s / c).
  int64_t window = 0;     ///< Most keys of a row, its last one counted; 0: all.
  DType dtype = DType::kF32;  ///< Type of k and v.
  void* workspace = nullptr;  ///< Device scratch, 4 byte aligned; null on the CPU
  int64_t workspace_bytes = 0;
  void* stream = nullptr;
};
/// Channels of a value and of a row of out.
constexpr int64_t ValueDim(const DenseAttentionArgs& args) {
  return args.v == nullptr ? args.value_dim : args.head_dim;
}
using DenseAttentionFn = OpStatus (*)(const DenseAttentionArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_DENSE_ATTENTION_H_
