// SPDX-License-Identifier: Apache-2.0
//
// digest: summaries of a unit's keys. A unit is scored by its digest without being read (score.h).
//
//   kind              [elements]     contents, over the unit's keys k_t
//   kMinMax           [2][d]         lo = min_t, hi = max_t per channel (Quest, FreeKV). Exact
//   kMean             [d]            mean_t per channel (the landmarks of ShadowKV)
//   kCentreDeviation  [2][d]         centre, then mean_t |k_t - centre| per channel (ArkVale's
//                                    released code). With half the range instead of the
//                                    deviation its score is that of kMinMax
//   kCentreRadius     [d + 1]        centre, then the radius of the ball around it
//   kDisc             [d + d/2]      centre, then the radius of the disc of every pair of channels;
//                                    a rotation moves the centres and keeps the radii
//   kRepresentatives  [d]            mean_t over the tokens that represent the page (InfLLM). The
//                                    keys do not show which those are, so the op takes all, as
//                                    kMean. A caller that saw the queries can choose better
//   kContent          [d]            mean_t of the keys without their rotation (SamKV). The op
//   takes
//                                    keys that the caller has turned to position 0, as kMean
//
// A centre is (lo + hi) / 2 per channel, rounded to the output type. The later elements are
// measured from the rounded centre, and radii are rounded up. The bound therefore holds for the
// stored digest. The output type is the keys' own or f32.
//
// Pairs of kDisc: the channels that RoPE rotates together (rope.h), and neighbours from rotary_dim
// on.
//
// Tolerance: equal as numbers (the sign of a zero is unspecified), so that a server and a worker
// score by the same digests. Means, deviations and radii are computed in f64. Every operation is
// rounded by itself, and rows or channels are added in ascending order. The result is rounded to
// f32, and then to the output type. NaN: a channel with a NaN key is NaN in every summary, so its
// page scores NaN and sorts last. An infinite key does the same, except in kMinMax. Errors:
// kBadShape for a size < 1 (n_units may be 0), unit_stride < p*d, valid_rows outside 1..p, a
// missing pointer. For kDisc also kBadShape for a d or rotary_dim that is odd, or a rotary_dim
// outside 0..d. Unknown kinds, and an out_dtype that is neither dtype nor kF32, are kUnsupported.
#ifndef QUIRE_KERNELS_API_DIGEST_H_
#define QUIRE_KERNELS_API_DIGEST_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "quire/digest.h"
#include "quire/dtype.h"

namespace quire::kernels {

using quire::DigestKind;
using quire::IsKnown;
using quire::kDigestKinds;

/// True for the kinds that are a mean of keys.
QUIRE_HOST_DEVICE constexpr bool IsMean(DigestKind kind) {
  return kind == DigestKind::kMean || kind == DigestKind::kRepresentatives ||
         kind == DigestKind::kContent;
}

/// Elements of the digest of one unit.
constexpr int64_t DigestElements(DigestKind kind, int64_t head_dim) {
  switch (kind) {
    case DigestKind::kMinMax:
    case DigestKind::kCentreDeviation:
      return 2 * head_dim;
    case DigestKind::kMean:
    case DigestKind::kRepresentatives:
    case DigestKind::kContent:
      return head_dim;
    case DigestKind::kCentreRadius:
      return head_dim + 1;
    case DigestKind::kDisc:
      return head_dim + head_dim / 2;
  }
  return 0;
}

/// Units of one sequence, in place of the fields of DigestArgs that have the same names.
struct DigestJob {
  const void* units = nullptr;
  void* digests = nullptr;
};

/// Summarises the first valid rows of each unit's K rows.
struct DigestArgs {
  const void* units = nullptr;  ///< Unit u starts at element u * unit_stride, with [p][d] keys
  int64_t unit_stride = 0;      ///< >= p*d elements: 2*p*d for units, p*d for MLA or bare keys
  const int32_t* valid_rows = nullptr;  ///< [n_units], each 1..p; null: p rows everywhere
  void* digests = nullptr;              ///< Out [n_units][DigestElements(kind, d)] out_dtype
  int64_t n_units = 0;
  int64_t page_tokens = 0;        ///< `p`
  int64_t head_dim = 0;           ///< `d`
  DType dtype = DType::kF16;      ///< Type of the keys.
  DType out_dtype = DType::kF16;  ///< `dtype` or kF32; both hold the minimum and maximum exactly
  DigestKind kind = DigestKind::kMinMax;
  int64_t rotary_dim = 0;    ///< Read by kDisc only, as RopeArgs::rotary_dim
  bool interleaved = false;  ///< Read by kDisc only
  /// [n_jobs] or null: what is summarised, for several sequences at once, n_units of each. Only
  /// without valid_rows.
  const DigestJob* jobs = nullptr;
  int64_t n_jobs = 0;
  void* stream = nullptr;
};
using DigestFn = OpStatus (*)(const DigestArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_DIGEST_H_
