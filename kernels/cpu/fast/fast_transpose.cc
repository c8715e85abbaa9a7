// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/sequences.h"

namespace quire::kernels::fast {
namespace {

/// Copies `rows` rows. A constant row width compiles to plain vector moves. A memcpy of variable
/// length would cost a call per few hundred bytes.
template <int64_t kRowBytes>
void CopyRows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
              int64_t row_bytes) {
  const int64_t bytes = kRowBytes != 0 ? kRowBytes : row_bytes;
  for (int64_t r = 0; r < rows; ++r) memcpy(to + r * to_stride, from + r * from_stride, bytes);
}

using CopyRowsFn = void (*)(const char*, int64_t, char*, int64_t, int64_t, int64_t);

CopyRowsFn ChooseCopy(int64_t row_bytes) {
  switch (row_bytes) {
    case 64:
      return CopyRows<64>;
    case 128:
      return CopyRows<128>;
    case 256:
      return CopyRows<256>;
    case 512:
      return CopyRows<512>;
    default:
      return CopyRows<0>;
  }
}

/// Byte geometry of pools and units.
struct Geometry {
  int64_t p, n_kv, sides, row_bytes;
  int64_t token_bytes() const { return n_kv * row_bytes; }  ///< One token in a pool.
  int64_t side_bytes() const { return p * row_bytes; }      ///< K rows (or V rows) of a unit
  int64_t unit_bytes() const { return sides * side_bytes(); }
  int64_t InPool(int64_t slot, int64_t head) const {
    return slot * p * token_bytes() + head * row_bytes;
  }
};

}  // namespace

OpStatus NhdToHnd(const NhdToHndArgs& args) {
  if (args.pages != nullptr) return RunPages(args, NhdToHnd);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t sides = args.has_values ? 2 : 1;
  const Geometry at{args.page_tokens, args.n_kv, sides, args.head_dim * ElementBytes(args.dtype)};
  const CopyRowsFn copy = ChooseCopy(at.row_bytes);
  const char* pools[] = {static_cast<const char*>(args.k_pool),
                         static_cast<const char*>(args.v_pool)};
  const int64_t stride = at.token_bytes();
  for (int64_t i = 0; i < args.n_pages; ++i) {
    const int64_t valid = i + 1 == args.n_pages ? args.last_page_rows : at.p;
    char* page = static_cast<char*>(args.units) + i * at.n_kv * at.unit_bytes();
    for (int64_t side = 0; side < sides; ++side) {
      const char* from = pools[side] + at.InPool(args.slots[i], 0);
      char* to = page + side * at.side_bytes();
      // Copies token by token, so that the slot is read in order. The copied "rows" are the heads
      // here.
      for (int64_t r = 0; r < valid; ++r) {
        copy(from + r * stride, at.row_bytes, to + r * at.row_bytes, at.unit_bytes(), at.n_kv,
             at.row_bytes);
      }
      for (int64_t g = 0; g < at.n_kv; ++g) {
        memset(to + g * at.unit_bytes() + valid * at.row_bytes, 0, (at.p - valid) * at.row_bytes);
      }
    }
  }
  return OpStatus::kOk;
}

OpStatus HndToNhd(const HndToNhdArgs& args) {
  if (args.addresses != nullptr) return RunUnits(args, HndToNhd);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t sides = args.has_values ? 2 : 1;
  const Geometry at{args.page_tokens, args.n_kv, sides, args.head_dim * ElementBytes(args.dtype)};
  const CopyRowsFn copy = ChooseCopy(at.row_bytes);
  char* pools[] = {static_cast<char*>(args.k_pool), static_cast<char*>(args.v_pool)};
  const char* contiguous = static_cast<const char*>(args.units);
  for (int64_t i = 0; i < args.n_units; ++i) {
    const UnitPlacement& place = args.placements[i];
    const char* unit = args.unit_ptrs != nullptr ? static_cast<const char*>(args.unit_ptrs[i])
                                                 : contiguous + i * at.unit_bytes();
    for (int64_t side = 0; side < sides; ++side) {
      copy(unit + side * at.side_bytes(), at.row_bytes,
           pools[side] + at.InPool(place.slot, place.kv_head), at.token_bytes(), at.p,
           at.row_bytes);
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
