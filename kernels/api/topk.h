// SPDX-License-Identifier: Apache-2.0
//
// topk: selects the k best pages of every row. Higher scores come first, ties go to the lower
// index. NaN scores are counted and sort after every number, among themselves by index. The output
// of a row is sorted by page index.
//
// Tolerance: exact. Selection may allocate scratch of n_pages entries on the CPU.
// Errors: kBadShape for n_rows < 1, k or n_pages < 0, an index beyond int32, a missing pointer.
#ifndef QUIRE_KERNELS_API_TOPK_H_
#define QUIRE_KERNELS_API_TOPK_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "quire/dtype.h"

namespace quire::kernels {

/// Entries that top k of n_pages writes per row.
QUIRE_HOST_DEVICE constexpr int64_t TopKWidth(int64_t k, int64_t n_pages) {
  return k < n_pages ? k : n_pages;
}

/// Rows of one sequence, in place of the fields of TopKArgs that have the same names.
struct TopKJob {
  const float* scores = nullptr;
  int32_t* indices = nullptr;
  int32_t* nan_counts = nullptr;
  int64_t n_pages = 0;
  int64_t k = 0;
  int32_t index_offset = 0;
};

struct TopKArgs {
  const float* scores = nullptr;  ///< [n_rows][n_pages]; a row is a KV head
  int32_t* indices = nullptr;     ///< Out [n_rows][TopKWidth(k, n_pages)], ascending in each row
  int32_t* nan_counts = nullptr;  ///< Out [n_rows] or null: NaN scores in the row
  int64_t n_rows = 0;
  int64_t n_pages = 0;
  int64_t k = 0;             ///< >= 0; k >= n_pages selects all
  int32_t index_offset = 0;  ///< Added to every index written (ScoreArgs::first_page).
  /// [n_jobs] or null: what is selected from, for several sequences at once. Each job has n_rows
  /// rows. A device does not check the jobs.
  const TopKJob* jobs = nullptr;
  int64_t n_jobs = 0;
  void* stream = nullptr;
};
using TopKFn = OpStatus (*)(const TopKArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_TOPK_H_
