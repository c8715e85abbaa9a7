// SPDX-License-Identifier: Apache-2.0
//
// page_digest: arguments of the digest and score ops for a KvSpec. Server and worker both use it,
// so that digests and scores are equal. Digests are in the KV dtype.
#ifndef QUIRE_KERNELS_API_PAGE_DIGEST_H_
#define QUIRE_KERNELS_API_PAGE_DIGEST_H_

#include <cstdint>

#include "kernels/api/digest.h"
#include "kernels/api/score.h"
#include "quire/kv_spec.h"

namespace quire::kernels {

/// True if units of `spec` have digests of this kind. Discs need channels in pairs. Content needs
/// keys whose rotation does not depend on the length of the context.
inline bool HasDigest(const KvSpec& spec, DigestKind kind) {
  if (kind == DigestKind::kDisc) return spec.key_dim() % 2 == 0;
  if (kind == DigestKind::kContent) return spec.rope.scaling != RopeScaling::kDynamic;
  return IsKnown(kind);
}

/// Bytes of the digests of one page at one layer, [n_kv][DigestElements].
inline uint64_t PageDigestBytes(const KvSpec& spec, DigestKind kind = DigestKind::kMinMax) {
  return uint64_t{spec.num_kv_heads} * static_cast<uint64_t>(DigestElements(kind, spec.key_dim())) *
         ElementBytes(spec.dtype);
}

/// The number of channels that discs pair as RoPE does. Zero for MLA, whose rotated channels follow
/// others.
inline int64_t PairedChannels(const KvSpec& spec) {
  return spec.attention == AttentionKind::kMla ? 0 : spec.rope.rotary_dim;
}

/// All digest arguments except units, digests and their number.
inline DigestArgs PageDigestArgs(const KvSpec& spec, DigestKind kind) {
  return {.unit_stride = int64_t{spec.rows_per_unit()} * spec.key_dim(),
          .page_tokens = spec.page_tokens,
          .head_dim = spec.key_dim(),
          .dtype = spec.dtype,
          .out_dtype = spec.dtype,
          .kind = kind,
          .rotary_dim = PairedChannels(spec),
          .interleaved = spec.rope.interleaved};
}

/// All score arguments except queries, digests, scores and their number.
inline ScoreArgs PageScoreArgs(const KvSpec& spec, DigestKind kind) {
  return {.n_kv = spec.num_kv_heads,
          .head_dim = spec.key_dim(),
          .dtype = spec.dtype,
          .kind = kind,
          .rotary_dim = PairedChannels(spec),
          .interleaved = spec.rope.interleaved};
}

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_PAGE_DIGEST_H_
