// SPDX-License-Identifier: Apache-2.0
//
// Speed of the store on an SSD, against two rivals. One is a minimal io_uring loop on the same file
// system with the same block size and depth. The other is BlobDB with the same values. All take
// turns in every round.
#ifndef QUIRE_BENCH_STORE_STORE_SSD_H_
#define QUIRE_BENCH_STORE_STORE_SSD_H_

#include <cstdint>

#include "bench/store/store_dataset.h"

namespace quire::bench {

/// One contender.
struct SsdRate {
  double vs_raw = 0;
  double gb_per_s = 0;       ///< Requested GB per second; 1 GB is 10^9 bytes.
  double amplification = 0;  ///< Device bytes per requested byte.
};

struct SsdReads {
  SsdRate store;  ///< By PageStore::ReadUnits.
  SsdRate blobdb;
  double raw_gb_per_s = 0;
};
/// Reads random units of `dataset`, none of which is in DRAM.
StatusOr<SsdReads> MeasureSsdReads(const StoreBenchOptions& options, Dataset& dataset);

/// Sequential ingest of segments into an empty store.
struct SsdWrites {
  /// By PageStore::PutSegment at the default durability, including checksums, digests, the copy to
  /// DRAM and the commit. `writers` concurrent puts share syncs. Compare with `raw`.
  SsdRate store;
  /// The same, one put after the other, each with its own sync. Compare with `raw_each_synced`.
  SsdRate store_each_synced;
  SsdRate tier;  ///< By SsdTier::Put of segments and a sync at the end. Compare with `raw`.
  SsdRate blobdb;
  double raw_gb_per_s = 0;              ///< With one sync at the end.
  double raw_each_synced_gb_per_s = 0;  ///< With a sync for each segment.
};
StatusOr<SsdWrites> MeasureSsdWrites(const StoreBenchOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STORE_STORE_SSD_H_
