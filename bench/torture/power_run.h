// SPDX-License-Identifier: Apache-2.0
//
// PowerRun: the power fails while a store is opened or under load, and what is there afterwards is
// compared with what had been acknowledged, and with what the store accounts for. Every other disk
// has a limit, so that its store evicts what no document names. The whole store, RocksDB's files
// included, lies on one simulated disk (kvserver/store/payload/power_disk.h), which forgets what
// was not synced. Nothing is written to the machine's disks.
#ifndef QUIRE_BENCH_TORTURE_POWER_RUN_H_
#define QUIRE_BENCH_TORTURE_POWER_RUN_H_

#include <cstdint>
#include <iostream>

#include "bench/torture/crash_run.h"
#include "bench/torture/server_history.h"
#include "kvserver/store/payload/power_disk.h"
#include "quire/status.h"

namespace quire::torture {

struct PowerOptions {
  uint32_t rounds = 500;
  uint64_t seed = 1;
  /// Changes and syncs of the disk in a round, after which the power fails at the latest.
  uint64_t operations = 1500;
  /// Syncs that the disk leaves out, to show that the run finds what is wrong then. Null: none.
  kvserver::PowerDisk::IgnoresSync ignores_sync = nullptr;
  bool ends_when_unsound = false;  ///< The first round that finds something wrong is the last.
  std::ostream* log = &std::cerr;  ///< Told what is wrong, a line for each thing.
};

struct PowerReport {
  uint32_t rounds = 0;
  ServerHistory::Totals totals;
  uint64_t refused_to_open = 0;  ///< Stores that could not be opened when the power was back.
  uint64_t cut_while_opening = 0;
  /// Problems of space after a clean close: findings of fsck, counts that differ from the server's,
  /// bytes left after everything was deleted.
  uint64_t space_problems = 0;
  uint64_t segments_evicted = 0;   ///< Cached ones, for room or because they were unused for long.
  uint64_t contexts_cut = 0;       ///< Open when the power went.
  uint64_t stores_emptied = 0;     ///< Stores of which everything was deleted in the end.
  uint64_t changes_forgotten = 0;  ///< Sectors and names that were not synced, and gone.
  uint64_t changes_survived = 0;   ///< And those that were there all the same.

  bool sound() const { return totals.sound() && refused_to_open == 0 && space_problems == 0; }
};

/// Errors are of the machinery. What the store did wrong is in the report. Steps of `progress`: one
/// a round.
StatusOr<PowerReport> RunPowerFailures(const PowerOptions& options, const Progress& progress);

/// The directories of the store on the simulated disk.
inline constexpr const char* kPowerMount = "/disk";
inline constexpr const char* kPowerDirectory = "/disk/store";

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_POWER_RUN_H_
