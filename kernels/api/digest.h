// SPDX-License-Identifier: Apache-2.0
//
// digest: per-channel minimum and maximum of a unit's keys (spec A.1.1). The output type is the
// keys' own or f32, so it is exact and needs no outward rounding (spec 0.4).
//
// Tolerance: equal as numbers (the sign of a zero is unspecified). A channel with a NaN key has
// lo = hi = NaN, so that its page scores NaN and sorts last.
// Errors: kBadShape for a size < 1 (n_units may be 0), unit_stride < p*d, valid_rows outside 1..p,
// a missing pointer; kUnsupported for an out_dtype that is neither dtype nor kF32.
#ifndef QUIRE_KERNELS_API_DIGEST_H_
#define QUIRE_KERNELS_API_DIGEST_H_

#include <cstdint>

#include "common/page/dtype.h"
#include "kernels/api/status.h"

namespace quire::kernels {

/// lo[c] = min and hi[c] = max over the first valid rows of each unit's K rows.
struct DigestArgs {
  const void* units = nullptr;  ///< unit u starts at element u * unit_stride, with [p][d] keys
  int64_t unit_stride = 0;      ///< >= p*d elements: 2*p*d for units, p*d for MLA or bare keys
  const int32_t* valid_rows = nullptr;  ///< [n_units], each 1..p; null: p rows everywhere
  void* digests = nullptr;              ///< out [n_units][2][d] out_dtype: lo, then hi
  int64_t n_units = 0;
  int64_t page_tokens = 0;        ///< p
  int64_t head_dim = 0;           ///< d
  DType dtype = DType::kF16;      ///< of the keys
  DType out_dtype = DType::kF16;  ///< dtype or kF32; both hold the minimum and maximum exactly
  void* stream = nullptr;
};
using DigestFn = OpStatus (*)(const DigestArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_DIGEST_H_
