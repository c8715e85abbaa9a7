// SPDX-License-Identifier: Apache-2.0
//
// Read speed of the store from DRAM. Scattered units are copied out through the store, against
// memcpy of the same pattern. The plain buffer has the same size and kind of pages. Units are also
// returned in place.
#ifndef QUIRE_BENCH_STORE_STORE_DRAM_H_
#define QUIRE_BENCH_STORE_STORE_DRAM_H_

#include <cstdint>
#include <string>

#include "bench/store/store_dataset.h"

namespace quire::bench {

struct DramRates {
  double vs_memcpy = 0;
  double copied_gb_per_s = 0;  ///< GB per second; 1 GB is 10^9 bytes.
  double memcpy_gb_per_s = 0;
  double handout_units_per_s = 0;  ///< By one thread, through the tier.
  double store_units_per_s = 0;    ///< By one thread, through the whole store.
  std::string pages;               ///< Kind of pages of the arena.
};

/// Reads the first `working_set_bytes` of `dataset`, in random order of units.
StatusOr<DramRates> MeasureDram(const StoreBenchOptions& options, Dataset& dataset);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STORE_STORE_DRAM_H_
