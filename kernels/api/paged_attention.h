// SPDX-License-Identifier: Apache-2.0
//
// paged_attention: decode attention of one query token over the listed slots. Each head may hold
// another page in the same slot, and another number of its rows, 0 for none. The order of slots
// does not matter, as keys carry their rotation. Several sequences of a batch may share slots; pad
// shorter lists with slots of 0 rows. Merge parts with the log-sum-exp (merge_attention.h).
//
// A device splits the slots of a head over several blocks and merges the results. Each block needs
// AttentionSplitBytes of the workspace. Without workspace one block handles a head. The CPU needs
// none.
//
// Rows past valid_tokens, and those before first_tokens, are never used, whatever they hold. NaN in
// a used row makes out NaN.
// Tolerance: kAttentionTolerance (tolerance.h). Errors: kBadShape for a size < 1, n_q not a
// multiple of n_kv, a slot, valid_tokens or first_tokens out of range, or a head without any used
// row. Also for a scale that is not finite, a negative soft cap, a missing pointer, first_tokens
// beside tokens, and a workspace of negative size. A device that cannot read the lists treats a
// slot out of range as empty, and rows beyond p as p. It returns out = 0 and lse = -infinity for a
// head without any row.
#ifndef QUIRE_KERNELS_API_PAGED_ATTENTION_H_
#define QUIRE_KERNELS_API_PAGED_ATTENTION_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// Workspace of one split: `rows` results (batch * n_q) of `dim` channels and their lse.
constexpr int64_t AttentionSplitBytes(int64_t rows, int64_t dim) { return rows * (dim + 1) * 4; }

/// The pools of one sequence.
struct SequencePools {
  const void* k = nullptr;
  const void* v = nullptr;
};

struct PagedAttentionArgs {
  const float* q = nullptr;      ///< [batch][n_q][d], rotated like the keys
  const void* k_pool = nullptr;  ///< [num_slots][p][n_kv][d] dtype, or fp8 codes
  const void* v_pool = nullptr;  ///< [num_slots][p][n_kv][d] dtype, or fp8 codes
  const float* k_scales =
      nullptr;  ///< [num_slots][n_kv], with fp8_pools only: value = code * scale
  const float* v_scales = nullptr;  ///< [num_slots][n_kv], likewise
  const int32_t* slots = nullptr;   ///< [batch][n_slots], each in [0, num_slots)
  /// [batch][n_kv][n_slots], each 0..p: leading rows of slots[s] that KV head g attends to
  const int32_t* valid_tokens = nullptr;
  /// [batch][n_slots] or null, each 0..p: rows of slots[s] before it are hidden from every head
  const int32_t* first_tokens = nullptr;
  float* out = nullptr;  ///< Out [batch][n_q][d]
  /// Out [batch][n_q] or null: log(sum(exp(scale * q.k))), natural logarithm
  float* lse = nullptr;
  /// [batch] or null: pools of each sequence, in place of k_pool and v_pool; not for fp8. num_slots
  /// is the most that any of them has.
  const SequencePools* pools = nullptr;
  /// [batch] or null: tokens of each sequence, in order from slot 0 on. All heads attend to all of
  /// them; slots and valid_tokens are unused then, and first_tokens is null.
  const int32_t* tokens = nullptr;
  int64_t batch = 1;  ///< Sequences, each with one query token
  int64_t num_slots = 0;
  int64_t n_slots = 0;
  int64_t page_tokens = 0;  ///< `p`
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;       ///< `d`
  float scale = 0.0f;         ///< Usually 1/sqrt(d)
  float soft_cap = 0.0f;      ///< Cap c > 0: scores s = scale * q.k become c * tanh(s / c).
  bool fp8_pools = false;     ///< Codes of kFp8E4M3 (codec.h).
  DType dtype = DType::kF16;  ///< Type of the pools, unless they are fp8.
  void* workspace = nullptr;  ///< Device scratch, 4 byte aligned; null on the CPU
  int64_t workspace_bytes = 0;
  void* stream = nullptr;
};
using PagedAttentionFn = OpStatus (*)(const PagedAttentionArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_PAGED_ATTENTION_H_
