// SPDX-License-Identifier: Apache-2.0
//
// SoakRun: measures the memory growth of a full store whose content is replaced again and again.
//
// Overhead is the private memory of the process (RssAnon), less that of the opened empty store,
// less the configured caches and buffers. The latter are segment records and chains, digests,
// RocksDB's memtables and block cache, and payload buffers. The arena is shared memory (RssShmem)
// and never a part of RssAnon. Memory of the load counts as the store's.
#ifndef QUIRE_BENCH_TORTURE_SOAK_RUN_H_
#define QUIRE_BENCH_TORTURE_SOAK_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/torture/crash_run.h"
#include "common/base/status.h"

namespace quire::torture {

struct SoakOptions {
  std::string directory;  ///< Exists; its subdirectory "soak" is used and removed.
  uint32_t seconds = 600;
  uint64_t dram_bytes = 256 << 20;
  uint64_t ssd_bytes = 2ull << 30;  ///< Most disk space of the store.
  uint32_t threads = 2;
  uint64_t seed = 1;
};

/// The memory of the process at one moment, in bytes.
struct MemorySample {
  uint64_t private_bytes = 0;   ///< RssAnon
  uint64_t shared_bytes = 0;    ///< RssShmem: the part of the arena that was touched.
  uint64_t cached_bytes = 0;    ///< Bytes in the configured caches and buffers.
  uint64_t memtable_bytes = 0;  ///< Part of cached_bytes in RocksDB's memtables.
  uint64_t stored_bytes = 0;    ///< Payload in the store.

  int64_t uncached_bytes() const {
    return static_cast<int64_t>(private_bytes) - static_cast<int64_t>(cached_bytes);
  }
};

struct SoakReport {
  double seconds = 0;
  uint64_t written_bytes = 0;
  double turnovers = 0;  ///< Payload written, as a multiple of the store's capacity.
  History::Totals totals;
  MemorySample at_open;
  /// One per second, after the first turnover.
  std::vector<MemorySample> samples;

  /// Mean overhead over the last third of the samples, for each GiB stored.
  double overhead_bytes_per_gib() const;
  /// Mean of the last third less mean of the first third.
  double growth_bytes() const;
  /// Twice the samples' deviation: smaller growth is not significant.
  double growth_noise_bytes() const;
};

/// Runs the load. Each second is a step of `progress`.
StatusOr<SoakReport> RunSoak(const SoakOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SOAK_RUN_H_
