// SPDX-License-Identifier: Apache-2.0
//
// paged_attention: decode attention of one query token over the slots it lists. Each head may see
// another page in the same slot (the slot trick of spec 0.2) and another number of its rows, 0 for
// none. The order of slots does not matter, as keys carry their rotation. Merge parts with the
// log-sum-exp.
//
// Rows past valid_tokens are never used, whatever they hold; NaN in a used row makes out NaN.
// Tolerance: |out - reference| <= 1e-4 * max|v| of the head; lse 1e-4 + 1e-5 * |lse|.
// Errors: kBadShape for a size < 1, n_q not a multiple of n_kv, a slot or valid_tokens out of
// range, a head without any valid token, scale that is not finite, a missing pointer.
#ifndef QUIRE_KERNELS_API_PAGED_ATTENTION_H_
#define QUIRE_KERNELS_API_PAGED_ATTENTION_H_

#include <cstdint>

#include "common/page/dtype.h"
#include "kernels/api/status.h"

namespace quire::kernels {

struct PagedAttentionArgs {
  const float* q = nullptr;        ///< [n_q][d], rotated like the keys
  const void* k_pool = nullptr;    ///< [num_slots][p][n_kv][d] dtype
  const void* v_pool = nullptr;    ///< [num_slots][p][n_kv][d] dtype
  const int32_t* slots = nullptr;  ///< [n_slots], each in [0, num_slots)
  /// [n_kv][n_slots], each 0..p: leading rows of slots[s] that KV head g attends to
  const int32_t* valid_tokens = nullptr;
  float* out = nullptr;  ///< out [n_q][d]
  float* lse = nullptr;  ///< out [n_q] or null: log(sum(exp(scale * q.k))), natural logarithm
  int64_t num_slots = 0;
  int64_t n_slots = 0;
  int64_t page_tokens = 0;  ///< p
  int64_t n_q = 0;
  int64_t n_kv = 0;
  int64_t head_dim = 0;       ///< d
  float scale = 0.0f;         ///< usually 1/sqrt(d)
  DType dtype = DType::kF16;  ///< of the pools
  void* stream = nullptr;
};
using PagedAttentionFn = OpStatus (*)(const PagedAttentionArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_PAGED_ATTENTION_H_
