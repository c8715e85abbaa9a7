// SPDX-License-Identifier: Apache-2.0
//
// place_units: recall in one pass. It decodes encoded units (codec.h), rotates their keys to
// another position (rope.h), and writes the rows to their places in the NHD pools (transpose.h).
//
// Rotation: rotary embeddings compose, so turning a key by b - a moves it from position a to b. A
// value that is not rotated equals that of decode_unit, to the bit. A rotated pair is decoded in
// f32, turned as in rope.h and rounded once. Like a decoded value it never becomes infinite.
// Rows from valid_rows on become zero.
//
// Pools of fp8: the units are kFp8E4M3 and keep their codes; the scale of each unit is written to
// the scale of its slot and head. They cannot be rotated.
//
// Tolerance: exact. NaN stays NaN, in a rotated pair any NaN. When two placements are equal, each
// row comes from either unit. Errors: kBadShape for a size < 1 (n_units may be 0), and for
// rotary_dim odd or outside the channels after rotary_first. Also for valid_rows outside 1..p, a
// placement or rotation out of range, and a missing pointer. Also kUnsupported for an unknown
// codec, for fp8 pools with another codec or with rotations. A device that cannot read the lists
// skips units with an entry out of range.
#ifndef QUIRE_KERNELS_API_PLACE_UNITS_H_
#define QUIRE_KERNELS_API_PLACE_UNITS_H_

#include <cstdint>

#include "kernels/api/codec.h"
#include "kernels/api/status.h"
#include "kernels/api/transpose.h"

namespace quire::kernels {

struct PlaceUnitsArgs {
  const void* encoded = nullptr;           ///< [n_units][EncodedUnitBytes]; unused with unit_ptrs
  const void* const* unit_ptrs = nullptr;  ///< [n_units] or null: address of each encoded unit
  const UnitPlacement* placements = nullptr;  ///< [n_units]
  const int32_t* valid_rows = nullptr;        ///< [n_units] in 1..p, or null: all p
  /// [n_units] or null: row of the tables that rotates the unit's keys; negative for no rotation
  const int32_t* rotations = nullptr;
  const float* cos_table = nullptr;  ///< [n_rotations][rotary_dim/2]
  const float* sin_table = nullptr;  ///< [n_rotations][rotary_dim/2]
  void* k_pool = nullptr;            ///< Out [num_slots][p][n_kv][d] dtype, or fp8 codes
  void* v_pool = nullptr;            ///< Out likewise; unused without values
  float* k_scales = nullptr;         ///< Out [num_slots][n_kv], with fp8_pools only
  float* v_scales = nullptr;         ///< Out [num_slots][n_kv], with fp8_pools and values only
  int64_t num_slots = 0;
  int64_t n_units = 0;
  int64_t n_kv = 0;
  /// Rows of the tables; this field and the next three are read with `rotations` only.
  int64_t n_rotations = 0;
  int64_t rotary_first = 0;  ///< First rotated channel: 0, or the latent width of MLA.
  int64_t rotary_dim = 0;    ///< Even; pairs as in RopeArgs, counted from rotary_first
  bool interleaved = false;
  bool fp8_pools = false;
  UnitShape shape = {};  ///< Shape of the units; its dtype is also that of the pools.
  UnitCodec codec = UnitCodec::kRaw;
  void* stream = nullptr;
};
using PlaceUnitsFn = OpStatus (*)(const PlaceUnitsArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_PLACE_UNITS_H_
