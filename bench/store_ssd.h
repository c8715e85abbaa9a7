// SPDX-License-Identifier: Apache-2.0
//
// What the payload store gets out of an SSD, against a minimal io_uring loop on the same file
// system with the same block size and depth. Both take turns in every round, since the device's
// speed drifts; a ratio is the median over the rounds of raw time / store time.
#ifndef QUIRE_BENCH_STORE_SSD_H_
#define QUIRE_BENCH_STORE_SSD_H_

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::bench {

struct SsdBenchOptions {
  std::string directory;                ///< Gets a few GiB; what was made is removed again.
  uint64_t dataset_bytes = 2ull << 30;  ///< Stored, and read from at random.
  uint64_t read_bytes = 512ull << 20;   ///< Read in a round.
  uint64_t put_bytes = 32ull << 20;     ///< Of one Write: a segment.
  uint32_t depth = 32;                  ///< Requests in flight.
  uint32_t batch_units = 256;           ///< Units of one Read.
  uint32_t rounds = 7;
};

struct SsdRate {
  double ratio_to_raw = 0;
  double store_gb_per_s = 0;  ///< Median, 10^9 bytes.
  double raw_gb_per_s = 0;
  double amplification = 0;  ///< Bytes that the device moved for each that was asked for.
};

/// What the machine offers: "io_uring", "direct".
struct SsdModes {
  std::string engine;
  std::string mode;
};

/// Random reads of units of `unit_bytes` through PayloadStore::Read, and raw from the same files.
StatusOr<SsdRate> MeasureSsdReads(const SsdBenchOptions& options, uint64_t unit_bytes);
/// Sequential ingest of the dataset with a sync at its end, and raw into one preallocated file.
StatusOr<SsdRate> MeasureSsdWrites(const SsdBenchOptions& options);
StatusOr<SsdModes> FindSsdModes(const SsdBenchOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STORE_SSD_H_
