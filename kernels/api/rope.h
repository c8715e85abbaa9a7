// SPDX-License-Identifier: Apache-2.0
//
// rope: rotary embedding in place. The tables are given, so the caller chooses the scaling scheme.
// To move keys from position a to b, use a table row for b - a: rotations compose.
//
// Tolerance: exact, all tables give the same number, so that a worker and a server rotate a query
// alike. Everything is f32. Each product, the difference and the sum of RopeArgs are rounded, never
// fused. The result is rounded to dtype once more. A NaN is any NaN.
// Errors: kBadShape for a size < 1 (t may be 0), rotary_dim odd or < 0, channels outside d, a
// position out of range, a missing pointer.
#ifndef QUIRE_KERNELS_API_ROPE_H_
#define QUIRE_KERNELS_API_ROPE_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// Pair i of a row at position m: (a, b) -> (a*cos - b*sin, b*cos + a*sin) with entry [m][i] of the
/// tables. Pairs are (i, i + rotary_dim/2) (neox), or (2i, 2i + 1) when interleaved, counted from
/// rotary_first.
struct RopeArgs {
  void* rows = nullptr;                ///< In and out [t][heads][d] dtype
  const int32_t* positions = nullptr;  ///< [t], each in [0, n_positions)
  const float* cos_table = nullptr;    ///< [n_positions][rotary_dim/2]
  const float* sin_table = nullptr;    ///< [n_positions][rotary_dim/2]
  int64_t t = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;      ///< `d`
  int64_t rotary_first = 0;  ///< First rotated channel; behind what is not rotated in MLA.
  int64_t rotary_dim = 0;    ///< Even; the other channels are unchanged.
  int64_t n_positions = 0;
  bool interleaved = false;
  DType dtype = DType::kF32;  ///< Type of the rows; computed in f32 and rounded once.
  void* stream = nullptr;
};
using RopeFn = OpStatus (*)(const RopeArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_ROPE_H_
