// SPDX-License-Identifier: Apache-2.0
//
// mla_attention: decode attention over latents (MLA). All query heads share one row per token,
// whose first latent_dim channels are also the value; queries come with the key's up-projection
// absorbed. Slots and rows are listed as in paged_attention.h.
//
//   out = sum_r softmax_r(scale * q.row_r) * row_r[0..latent_dim)
//
// Rows past valid_tokens are never used; NaN in a used row makes out NaN. Tolerance:
// kAttentionTolerance (tolerance.h), with the latents as values. Errors: kBadShape for a size < 1,
// a slot or valid_tokens out of range, or a sequence without any valid token. Also for a scale that
// is not finite, a missing pointer, and a workspace of negative size.
#ifndef QUIRE_KERNELS_API_MLA_ATTENTION_H_
#define QUIRE_KERNELS_API_MLA_ATTENTION_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"
#include "quire/dtype.h"

namespace quire::kernels {

struct MlaAttentionArgs {
  const float* q = nullptr;        ///< [batch][n_q][latent_dim + rope_dim]
  const void* pool = nullptr;      ///< [num_slots][p][latent_dim + rope_dim] dtype, or fp8 codes
  const float* scales = nullptr;   ///< [num_slots], with fp8_pool only: value = code * scale
  const int32_t* slots = nullptr;  ///< [batch][n_slots], each in [0, num_slots)
  const int32_t* valid_tokens = nullptr;  ///< [batch][n_slots], each 0..p: leading rows to use
  float* out = nullptr;                   ///< Out [batch][n_q][latent_dim]
  float* lse = nullptr;                   ///< Out [batch][n_q] or null, natural logarithm
  int64_t batch = 1;                      ///< Sequences
  int64_t num_slots = 0;
  int64_t n_slots = 0;
  int64_t page_tokens = 0;  ///< `p`
  int64_t n_q = 0;
  int64_t latent_dim = 0;  ///< 512 in DeepSeek models
  int64_t rope_dim = 0;    ///< 64 in DeepSeek models; may be 0.
  float scale = 0.0f;
  bool fp8_pool = false;
  DType dtype = DType::kF16;  ///< Type of the pool, unless it is fp8.
  void* workspace = nullptr;  ///< Device scratch as in PagedAttentionArgs
  int64_t workspace_bytes = 0;
  void* stream = nullptr;
};
using MlaAttentionFn = OpStatus (*)(const MlaAttentionArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_MLA_ATTENTION_H_
