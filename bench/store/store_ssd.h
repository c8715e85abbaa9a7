// SPDX-License-Identifier: Apache-2.0
//
// What the store gets out of an SSD, against a minimal io_uring loop on the same file system with
// the same block size and depth, and against BlobDB with the same values. All take turns in every
// round.
#ifndef QUIRE_BENCH_STORE_STORE_SSD_H_
#define QUIRE_BENCH_STORE_STORE_SSD_H_

#include <cstdint>

#include "bench/store/store_dataset.h"

namespace quire::bench {

/// One contender.
struct SsdRate {
  double vs_raw = 0;
  double gb_per_s = 0;       ///< Of what was asked for, 10^9 bytes.
  double amplification = 0;  ///< Bytes that the devices moved for each that was asked for.
};

struct SsdReads {
  SsdRate store;  ///< PageStore::ReadUnits.
  SsdRate blobdb;
  double raw_gb_per_s = 0;
};
/// Random units of `dataset`, none of which is in DRAM.
StatusOr<SsdReads> MeasureSsdReads(const StoreBenchOptions& options, Dataset& dataset);

/// Sequential ingest of segments into something empty.
struct SsdWrites {
  /// PageStore::PutSegment at the default durability: checksums, digests, the copy to DRAM and the
  /// commit besides. `writers` puts at a time, which share syncs; against `raw`.
  SsdRate store;
  /// The same, one put after the other, so that each has its sync; against `raw_each_synced`.
  SsdRate store_each_synced;
  SsdRate tier;  ///< SsdTier::Put of segments and a sync at the end; against `raw`.
  SsdRate blobdb;
  double raw_gb_per_s = 0;              ///< A sync at the end.
  double raw_each_synced_gb_per_s = 0;  ///< A sync for each segment.
};
StatusOr<SsdWrites> MeasureSsdWrites(const StoreBenchOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STORE_STORE_SSD_H_
