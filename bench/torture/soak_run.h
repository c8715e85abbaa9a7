// SPDX-License-Identifier: Apache-2.0
//
// SoakRun: a store that is full, turned over again and again; does its memory stay where it is?
//
// What is counted as overhead: the process's private memory (RssAnon), less what it was when the
// empty store had been opened, less what the configured caches and buffers hold at that moment
// (segment records and chains, digests, RocksDB's memtables and block cache, payload buffers).
// The arena is shared memory (RssShmem) and never a part of RssAnon. What the load itself holds is
// counted as the store's.
#ifndef QUIRE_BENCH_TORTURE_SOAK_RUN_H_
#define QUIRE_BENCH_TORTURE_SOAK_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/torture/crash_run.h"
#include "quire/status.h"

namespace quire::torture {

struct SoakOptions {
  std::string directory;  ///< Exists; its subdirectory "soak" is used and removed.
  uint32_t seconds = 600;
  uint64_t dram_bytes = 256 << 20;
  uint64_t ssd_bytes = 2ull << 30;  ///< Disk that the store may take.
  uint32_t threads = 2;
  uint64_t seed = 1;
};

/// The memory of the process at one moment, in bytes.
struct MemorySample {
  uint64_t private_bytes = 0;   ///< RssAnon
  uint64_t shared_bytes = 0;    ///< RssShmem: the part of the arena that was touched.
  uint64_t cached_bytes = 0;    ///< What the configured caches and buffers hold.
  uint64_t memtable_bytes = 0;  ///< Of those, RocksDB's memtables.
  uint64_t stored_bytes = 0;    ///< Payload in the store.

  int64_t uncached_bytes() const {
    return static_cast<int64_t>(private_bytes) - static_cast<int64_t>(cached_bytes);
  }
};

struct SoakReport {
  double seconds = 0;
  uint64_t written_bytes = 0;
  double turnovers = 0;  ///< Payload written over payload that the store may hold.
  History::Totals totals;
  MemorySample at_open;
  /// Once a second, from when the store had been turned over once.
  std::vector<MemorySample> samples;

  /// Mean of the last third of the samples over the store's empty state, for each GiB stored.
  double overhead_bytes_per_gib() const;
  /// Mean of the last third less mean of the first third.
  double growth_bytes() const;
  double growth_noise_bytes() const;  ///< Growth below this is none: twice the samples' deviation.
};

/// Steps of `progress`: one a second.
StatusOr<SoakReport> RunSoak(const SoakOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SOAK_RUN_H_
