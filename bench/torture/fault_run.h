// SPDX-License-Identifier: Apache-2.0
//
// Runs of a store whose devices fail and lie, while it runs and while it is closed. Whatever is
// done to it, it hands out the bytes that were put or an error, never others.
#ifndef QUIRE_BENCH_TORTURE_FAULT_RUN_H_
#define QUIRE_BENCH_TORTURE_FAULT_RUN_H_

#include <cstdint>
#include <iostream>
#include <string>

#include "bench/torture/crash_run.h"
#include "quire/status.h"

namespace quire::torture {

struct FaultOptions {
  std::string directory;  ///< Exists; subdirectories of it are used and removed.
  uint32_t rounds = 50;
  uint64_t seed = 1;
  std::ostream* log = &std::cerr;  ///< Told what is wrong, a line for each segment.
};

struct FaultReport {
  uint32_t rounds = 0;
  uint64_t faults_injected = 0;
  uint64_t refused = 0;  ///< Operations, and openings of the store, that ended with an error.
  uint64_t corrupt_served = 0;  ///< Wrong bytes handed out.
  uint64_t appeared = 0;        ///< Segments that nobody had put, or that had been deleted.
  uint64_t lost = 0;  ///< Acknowledged, and gone although the device had never lied about it.

  bool sound() const { return corrupt_served + appeared + lost == 0; }
  void Add(const FaultReport& other);
};

/// I/O of a running store fails: EIO, ENOSPC, short writes and failed syncs, writes that are torn
/// in silence, bits that flip on the way, a full or broken metadata directory, and a device that
/// disappears. Steps of `progress`: one a round.
StatusOr<FaultReport> RunDeviceFaults(const FaultOptions& options, const Progress& progress);

/// Files of a closed store are damaged, payload and metadata alike: flipped bits, zeroed blocks,
/// cut-off ends. Then it is opened, read, put again, and read again. Steps of `progress`: one a
/// round.
StatusOr<FaultReport> RunFileDamage(const FaultOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_FAULT_RUN_H_
