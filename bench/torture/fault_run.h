// SPDX-License-Identifier: Apache-2.0
//
// Runs of a store whose devices fail or corrupt data, while it runs and while it is closed. In
// every case it must serve the bytes that were put, or an error.
#ifndef QUIRE_BENCH_TORTURE_FAULT_RUN_H_
#define QUIRE_BENCH_TORTURE_FAULT_RUN_H_

#include <cstdint>
#include <iostream>
#include <string>

#include "bench/torture/crash_run.h"
#include "common/base/status.h"

namespace quire::torture {

struct FaultOptions {
  std::string directory;  ///< Exists; subdirectories of it are used and removed.
  uint32_t rounds = 50;
  uint64_t seed = 1;
  std::ostream* log = &std::cerr;  ///< Receives problems, a line for each segment.
};

struct FaultReport {
  uint32_t rounds = 0;
  uint64_t faults_injected = 0;
  uint64_t refused = 0;  ///< Operations, and openings of the store, that ended with an error.
  uint64_t corrupt_served = 0;  ///< Reads that served wrong bytes.
  uint64_t appeared = 0;        ///< Segments found that were never put, or had been deleted.
  /// Acknowledged segments that are gone although the device reported every fault.
  uint64_t lost = 0;

  bool sound() const { return corrupt_served + appeared + lost == 0; }
  void Add(const FaultReport& other);
};

/// Makes I/O of a running store fail. Faults: EIO, ENOSPC, short writes, failed syncs, silently
/// torn writes, bit flips in transit, a full or broken metadata directory, and a device that
/// disappears. Each round is a step of `progress`.
StatusOr<FaultReport> RunDeviceFaults(const FaultOptions& options, const Progress& progress);

/// Damages files of a closed store, payload and metadata alike: flipped bits, zeroed blocks,
/// cut-off ends. Then it is opened, read, put again, and read again. Each round is a step of
/// `progress`.
StatusOr<FaultReport> RunFileDamage(const FaultOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_FAULT_RUN_H_
