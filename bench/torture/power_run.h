// SPDX-License-Identifier: Apache-2.0
//
// PowerRun: simulates power failures while a store is opened or under load. It compares the
// remaining data with the acknowledged operations and with the store's own accounts. Every other
// disk has a limit, so its store evicts segments that no document names. The whole store, including
// RocksDB's files, lies on one simulated disk (kvserver/store/payload/testing/power_disk.h). The
// disk loses whatever was not synced. Nothing is written to the machine's disks.
#ifndef QUIRE_BENCH_TORTURE_POWER_RUN_H_
#define QUIRE_BENCH_TORTURE_POWER_RUN_H_

#include <cstdint>
#include <iostream>

#include "bench/torture/crash_run.h"
#include "bench/torture/server/server_history.h"
#include "kvserver/store/payload/testing/power_disk.h"
#include "quire/status.h"

namespace quire::torture {

struct PowerOptions {
  uint32_t rounds = 500;
  uint64_t seed = 1;
  /// Changes and syncs of the disk in a round, after which the power fails at the latest.
  uint64_t operations = 1500;
  /// Syncs that the disk ignores, to show that the run detects the loss. Null: none.
  kvserver::PowerDisk::IgnoresSync ignores_sync = nullptr;
  bool ends_when_unsound = false;  ///< Stops after the first round that finds a problem.
  std::ostream* log = &std::cerr;  ///< Receives problems, one per line.
};

struct PowerReport {
  uint32_t rounds = 0;
  ServerHistory::Totals totals;
  uint64_t refused_to_open = 0;  ///< Stores that could not be opened after the power failure.
  uint64_t cut_while_opening = 0;
  /// Space problems after a clean close: findings of fsck, counts that differ from the server's,
  /// bytes left after deleting everything.
  uint64_t space_problems = 0;
  uint64_t segments_evicted = 0;   ///< Cached segments evicted for room or for long disuse.
  uint64_t contexts_cut = 0;       ///< Contexts open at the power failure.
  uint64_t stores_emptied = 0;     ///< Stores from which everything was deleted at the end.
  uint64_t changes_forgotten = 0;  ///< Unsynced sectors and names that were lost.
  uint64_t changes_survived = 0;   ///< Unsynced sectors and names that survived.

  bool sound() const { return totals.sound() && refused_to_open == 0 && space_problems == 0; }
};

/// Runs the rounds. Errors concern the test machinery; the report has the faults of the store. Each
/// round is a step of `progress`.
StatusOr<PowerReport> RunPowerFailures(const PowerOptions& options, const Progress& progress);

/// The directories of the store on the simulated disk.
inline constexpr const char* kPowerMount = "/disk";
inline constexpr const char* kPowerDirectory = "/disk/store";

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_POWER_RUN_H_
