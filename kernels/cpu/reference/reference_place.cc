// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/codec_scalar.h"
#include "kernels/cpu/reference/reference.h"

namespace quire::kernels::reference {
namespace {

/// One encoded unit, its place, and the table row that rotates its keys (negative: none).
struct Unit {
  const uint8_t* encoded;
  UnitPlacement place;
  int32_t valid;
  int32_t rotation;
};

Unit UnitAt(const PlaceUnitsArgs& args, int64_t i) {
  const int64_t bytes = EncodedUnitBytes(args.codec, args.shape);
  const void* encoded = args.unit_ptrs != nullptr
                            ? args.unit_ptrs[i]
                            : static_cast<const uint8_t*>(args.encoded) + i * bytes;
  return {static_cast<const uint8_t*>(encoded), args.placements[i],
          args.valid_rows != nullptr ? args.valid_rows[i]
                                     : static_cast<int32_t>(args.shape.page_tokens),
          args.rotations != nullptr ? args.rotations[i] : -1};
}

/// First element of row r of the unit's head in a pool.
int64_t InPool(const PlaceUnitsArgs& args, const UnitPlacement& place, int64_t r) {
  const int64_t token = place.slot * args.shape.page_tokens + r;
  return (token * args.n_kv + place.kv_head) * args.shape.head_dim;
}

/// Decodes the unit to [sides][p][d] of type `as`. Codes have the same values in every type.
std::vector<uint8_t> Decode(const PlaceUnitsArgs& args, const Unit& unit, DType as) {
  UnitShape shape = args.shape;
  if (args.codec != UnitCodec::kRaw) shape.dtype = as;
  std::vector<uint8_t> rows(static_cast<size_t>(shape.raw_bytes()));
  [[maybe_unused]] const OpStatus status =
      DecodeUnit({.encoded = unit.encoded,
                  .encoded_bytes = EncodedUnitBytes(args.codec, shape),
                  .valid_rows = &unit.valid,
                  .units = rows.data(),
                  .n_units = 1,
                  .shape = shape,
                  .codec = args.codec});
  return rows;
}

void PlaceDecoded(const PlaceUnitsArgs& args, const Unit& unit) {
  const std::vector<uint8_t> rows = Decode(args, unit, args.shape.dtype);
  const int64_t element = ElementBytes(args.shape.dtype);
  const int64_t row_bytes = args.shape.head_dim * element;
  for (int64_t side = 0; side < args.shape.sides(); ++side) {
    auto* pool = static_cast<uint8_t*>(side == 0 ? args.k_pool : args.v_pool);
    for (int64_t r = 0; r < args.shape.page_tokens; ++r) {
      memcpy(pool + InPool(args, unit.place, r) * element,
             rows.data() + (side * args.shape.page_tokens + r) * row_bytes,
             static_cast<size_t>(row_bytes));
    }
  }
}

/// Rotates the valid keys of a unit that PlaceDecoded has placed, from their unrounded values, by
/// kernels/api/rope.h.
void RotateKeys(const PlaceUnitsArgs& args, const Unit& unit) {
  const bool raw = args.codec == UnitCodec::kRaw;
  const DType as = raw ? args.shape.dtype : DType::kF32;
  const std::vector<uint8_t> rows = Decode(args, unit, as);
  const int64_t half = args.rotary_dim / 2;
  for (int64_t r = 0; r < unit.valid; ++r) {
    for (int64_t i = 0; i < half; ++i) {
      const int64_t first = args.rotary_first + (args.interleaved ? 2 * i : i);
      const int64_t second = first + (args.interleaved ? 1 : half);
      const float cos = args.cos_table[unit.rotation * half + i];
      const float sin = args.sin_table[unit.rotation * half + i];
      const float a = LoadElement(rows.data(), r * args.shape.head_dim + first, as);
      const float b = LoadElement(rows.data(), r * args.shape.head_dim + second, as);
      const int64_t to = InPool(args, unit.place, r);
      codec::StoreDecoded(args.k_pool, to + first, args.shape.dtype, a * cos - b * sin);
      codec::StoreDecoded(args.k_pool, to + second, args.shape.dtype, b * cos + a * sin);
    }
  }
}

/// Places codes of the valid rows, zeros after them, and the scales.
void PlaceCodes(const PlaceUnitsArgs& args, const Unit& unit) {
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  const auto d = static_cast<size_t>(args.shape.head_dim);
  for (int64_t side = 0; side < args.shape.sides(); ++side) {
    auto* pool = static_cast<uint8_t*>(side == 0 ? args.k_pool : args.v_pool);
    const uint8_t* codes = unit.encoded + (side == 0 ? layout.key_codes : layout.value_codes);
    for (int64_t r = 0; r < args.shape.page_tokens; ++r) {
      uint8_t* to = pool + InPool(args, unit.place, r);
      r < unit.valid ? memcpy(to, codes + r * args.shape.head_dim, d) : memset(to, 0, d);
    }
    float* scale = (side == 0 ? args.k_scales : args.v_scales) + unit.place.slot * args.n_kv +
                   unit.place.kv_head;
    memcpy(scale, unit.encoded + (side == 0 ? layout.key_params : layout.value_params),
           sizeof *scale);
  }
}

}  // namespace

OpStatus PlaceUnits(const PlaceUnitsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t i = 0; i < args.n_units; ++i) {
    const Unit unit = UnitAt(args, i);
    if (args.fp8_pools) {
      PlaceCodes(args, unit);
      continue;
    }
    PlaceDecoded(args, unit);
    if (unit.rotation >= 0) RotateKeys(args, unit);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
