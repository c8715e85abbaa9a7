// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/reference/reference.h"
#include "kernels/cpu/sequences.h"

namespace quire::kernels::reference {

OpStatus NhdToHnd(const NhdToHndArgs& args) {
  if (args.pages != nullptr) return RunPages(args, NhdToHnd);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t p = args.page_tokens;
  const int64_t sides = args.has_values ? 2 : 1;
  const int64_t row_bytes = args.head_dim * ElementBytes(args.dtype);
  for (int64_t i = 0; i < args.n_pages; ++i) {
    const int64_t valid = i + 1 == args.n_pages ? args.last_page_rows : p;
    for (int64_t g = 0; g < args.n_kv; ++g) {
      for (int64_t side = 0; side < sides; ++side) {
        const char* pool = static_cast<const char*>(side == 0 ? args.k_pool : args.v_pool);
        for (int64_t r = 0; r < p; ++r) {
          char* to = static_cast<char*>(args.units) +
                     (((i * args.n_kv + g) * sides + side) * p + r) * row_bytes;
          const int64_t from = ((args.slots[i] * p + r) * args.n_kv + g) * row_bytes;
          if (r < valid) {
            memcpy(to, pool + from, row_bytes);
          } else {
            memset(to, 0, row_bytes);
          }
        }
      }
    }
  }
  return OpStatus::kOk;
}

OpStatus HndToNhd(const HndToNhdArgs& args) {
  if (args.addresses != nullptr) return RunUnits(args, HndToNhd);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t p = args.page_tokens;
  const int64_t sides = args.has_values ? 2 : 1;
  const int64_t row_bytes = args.head_dim * ElementBytes(args.dtype);
  for (int64_t i = 0; i < args.n_units; ++i) {
    const UnitPlacement& place = args.placements[i];
    const char* unit = args.unit_ptrs != nullptr
                           ? static_cast<const char*>(args.unit_ptrs[i])
                           : static_cast<const char*>(args.units) + i * sides * p * row_bytes;
    for (int64_t side = 0; side < sides; ++side) {
      char* pool = static_cast<char*>(side == 0 ? args.k_pool : args.v_pool);
      for (int64_t r = 0; r < p; ++r) {
        const int64_t to = ((place.slot * p + r) * args.n_kv + place.kv_head) * row_bytes;
        memcpy(pool + to, unit + (side * p + r) * row_bytes, row_bytes);
      }
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
