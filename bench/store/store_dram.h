// SPDX-License-Identifier: Apache-2.0
//
// What the store gets out of DRAM: scattered units copied out through it against memcpy of the same
// pattern from a plain buffer of the same size and kind of pages, and units handed out in place.
#ifndef QUIRE_BENCH_STORE_STORE_DRAM_H_
#define QUIRE_BENCH_STORE_STORE_DRAM_H_

#include <cstdint>
#include <string>

#include "bench/store/store_dataset.h"

namespace quire::bench {

struct DramRates {
  double vs_memcpy = 0;
  double copied_gb_per_s = 0;  ///< 10^9 bytes.
  double memcpy_gb_per_s = 0;
  double handout_units_per_s = 0;  ///< One thread, through the tier.
  double store_units_per_s = 0;    ///< One thread, through the whole store.
  std::string pages;               ///< How the arena lies in memory.
};

/// Reads the first `working_set_bytes` of `dataset`, in an order that is random by unit.
StatusOr<DramRates> MeasureDram(const StoreBenchOptions& options, Dataset& dataset);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STORE_STORE_DRAM_H_
