// SPDX-License-Identifier: Apache-2.0
//
// transpose: converts between device slots (NHD, one pool for K and one for V) and units (HND). A
// unit holds K and V of one page and KV head, adjacent. Bytes are moved, never interpreted.
//
// Tolerance: bit exact. Pointers need the alignment of one element only.
// Errors: kBadShape for a size < 1 (n_pages and n_units may be 0), last_page_rows outside 1..p, a
// slot or head out of range, a missing pointer. The CPU checks slots and heads. A device cannot
// check lists in device memory: it skips an entry out of range and leaves its output unchanged.
#ifndef QUIRE_KERNELS_API_TRANSPOSE_H_
#define QUIRE_KERNELS_API_TRANSPOSE_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// A full page in a pool of its own, and where its units go. Aligned to the largest power of two
/// that divides the bytes of a row, at most 16.
struct PageAddress {
  const void* k = nullptr;  ///< The slot, [p][n_kv][d]
  const void* v = nullptr;  ///< Likewise
  void* units = nullptr;    ///< Out [n_kv][2][p][d]
};

/// Offload: unit (i, g), for page i and KV head g, is the K rows and then the V rows of slot
/// slots[i]. Rows of the last page from `last_page_rows` on become zero bytes in the unit, whatever
/// the slot holds.
struct NhdToHndArgs {
  const void* k_pool = nullptr;    ///< [num_slots][p][n_kv][d] dtype
  const void* v_pool = nullptr;    ///< [num_slots][p][n_kv][d] dtype; unused without has_values
  const int32_t* slots = nullptr;  ///< [n_pages], each in [0, num_slots)
  void* units = nullptr;           ///< Out [n_pages][n_kv][2][p][d] dtype
  int64_t num_slots = 0;
  int64_t n_pages = 0;
  int64_t page_tokens = 0;  ///< `p`
  int64_t n_kv = 0;
  int64_t head_dim = 0;        ///< `d`
  int64_t last_page_rows = 0;  ///< 1..p: tokens in the last listed page; p when it is full.
  bool has_values = true;      ///< False for MLA: units are [p][d], without V rows.
  DType dtype = DType::kF16;
  /// [n_pages] or null: full pages of any pools; pools, slots and units are unused then.
  const PageAddress* pages = nullptr;
  void* stream = nullptr;
};
using NhdToHndFn = OpStatus (*)(const NhdToHndArgs&);

/// The place of one unit: head `kv_head` of slot `slot`.
struct UnitPlacement {
  int32_t slot = 0;     ///< [0, num_slots)
  int32_t kv_head = 0;  ///< [0, n_kv)
};

/// Addresses of a unit's rows in its own pool, n_kv * d elements apart. Aligned as PageAddress.
struct UnitAddress {
  void* k = nullptr;
  void* v = nullptr;
};

/// Recall: copies whole units into their places in the pools (all p rows, zero rows included).
/// Units are contiguous from `units`, or anywhere if `unit_ptrs` is given. When two placements are
/// equal, either unit may be written.
struct HndToNhdArgs {
  const void* units = nullptr;                ///< [n_units][2][p][d] dtype; unused with unit_ptrs
  const void* const* unit_ptrs = nullptr;     ///< [n_units] or null: address of each unit
  const UnitPlacement* placements = nullptr;  ///< [n_units]
  void* k_pool = nullptr;                     ///< Out [num_slots][p][n_kv][d] dtype
  void* v_pool = nullptr;  ///< Out [num_slots][p][n_kv][d] dtype; unused without has_values
  int64_t num_slots = 0;
  int64_t n_units = 0;
  int64_t page_tokens = 0;  ///< `p`
  int64_t n_kv = 0;
  int64_t head_dim = 0;    ///< `d`
  bool has_values = true;  ///< False for MLA: units are [p][d], without V rows.
  DType dtype = DType::kF16;
  /// [n_units] or null: places in any pools; placements and pools are unused then.
  const UnitAddress* addresses = nullptr;
  void* stream = nullptr;
};
using HndToNhdFn = OpStatus (*)(const HndToNhdArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_TRANSPOSE_H_
