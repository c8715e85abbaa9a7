// SPDX-License-Identifier: Apache-2.0
//
// narrow: converts f32 rows to the dtype of a cache and writes them to their rows. A list may give
// the rows, so that a recorded launch can write other rows each time. Or a list gives the addresses
// of every row, so that one launch writes to the caches of several sequences.
//
// When two places are equal, each element comes from either row.
// Tolerance: exact: rounded to nearest, ties to even; beyond the largest value infinity; NaN stays
// NaN.
// Errors: kBadShape for n or rows < 0, an unknown dtype, and a missing pointer, also in the list.
// Also for y_rows < 1 or a place out of range where there are places. A device that cannot read the
// lists skips rows with a place out of range, and does not check addresses.
#ifndef QUIRE_KERNELS_API_NARROW_H_
#define QUIRE_KERNELS_API_NARROW_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// A row that lies anywhere.
struct NarrowRow {
  const float* from = nullptr;  ///< [n]
  void* to = nullptr;           ///< Out [n] dtype, aligned to an element
};

/// y[places[r]] = x[r], or y[r] = x[r] without places, or *list[r].to = *list[r].from
struct NarrowArgs {
  const float* x = nullptr;         ///< [rows][n]
  const int32_t* places = nullptr;  ///< [rows] or null: the row of y, each in [0, y_rows)
  void* y = nullptr;                ///< Out [y_rows][n] dtype, without places [rows][n]; not x
  int64_t n = 0;
  int64_t rows = 1;
  int64_t y_rows = 0;  ///< Read with places only
  /// [rows] or null: addresses of the rows; x, places and y are unused then.
  const NarrowRow* list = nullptr;
  DType dtype = DType::kF16;
  void* stream = nullptr;
};
using NarrowFn = OpStatus (*)(const NarrowArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_NARROW_H_
