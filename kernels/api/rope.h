// SPDX-License-Identifier: Apache-2.0
//
// rope: rotary embedding in place, from given tables, so the scaling scheme is the caller's
// business. A delta rotation (spec 0.3) is the same op with a table row for the delta.
//
// Tolerance: exact, all tables give the same number, so that a worker and a server that turn the
// same query by the same tables have the same query. Everything is f32, and each product, the
// difference and the sum of RopeArgs are one rounding, never fused; the result is rounded to dtype
// once more. A NaN is any NaN.
// Errors: kBadShape for a size < 1 (t may be 0), rotary_dim odd, < 0 or > d, a position out of
// range, a missing pointer.
#ifndef QUIRE_KERNELS_API_ROPE_H_
#define QUIRE_KERNELS_API_ROPE_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// Pair i of a row at position m: (a, b) -> (a*cos - b*sin, b*cos + a*sin) with entry [m][i] of the
/// tables. Pairs are (i, i + rotary_dim/2) (neox), or (2i, 2i + 1) when interleaved.
struct RopeArgs {
  void* rows = nullptr;                ///< in and out [t][heads][d] dtype
  const int32_t* positions = nullptr;  ///< [t], each in [0, n_positions)
  const float* cos_table = nullptr;    ///< [n_positions][rotary_dim/2]
  const float* sin_table = nullptr;    ///< [n_positions][rotary_dim/2]
  int64_t t = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;    ///< d
  int64_t rotary_dim = 0;  ///< even, 0..d; channels from there on stay as they are
  int64_t n_positions = 0;
  bool interleaved = false;
  DType dtype = DType::kF32;  ///< of the rows; rotated in f32 and rounded once (spec 0.3)
  void* stream = nullptr;
};
using RopeFn = OpStatus (*)(const RopeArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_ROPE_H_
