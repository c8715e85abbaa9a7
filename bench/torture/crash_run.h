// SPDX-License-Identifier: Apache-2.0
//
// CrashRun: kills servers under load, at random moments and inside fault points. It compares the
// remaining data with the acknowledged operations. Eight rounds of puts alone alternate with eight
// rounds of documents that are pinned, expire and are deleted, with contexts open. Every other
// store with documents has a limit, and evicts segments that no document names.
//
// The death of a process loses nothing that it had written, since the page cache belongs to the
// system. Acknowledgements of every durability must therefore hold. Only a power failure
// distinguishes them; FaultEngine tests that (page_store_faults_test).
#ifndef QUIRE_BENCH_TORTURE_CRASH_RUN_H_
#define QUIRE_BENCH_TORTURE_CRASH_RUN_H_

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "bench/torture/server/server_history.h"
#include "bench/torture/store/history.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::torture {

/// Called after each step of a run, with a note on the present state.
using Progress = std::function<void(const std::string& note)>;

struct CrashOptions {
  std::string directory;             ///< Exists; its subdirectory "crash" is used and removed.
  std::vector<std::string> command;  ///< Program and arguments that run RunCrashChild.
  uint32_t rounds = 50;
  uint64_t seed = 1;
  /// Events of a round, after which it is killed at the latest.
  uint64_t events = 2000;
  uint64_t recovery_bytes = 1ull << 30;  ///< Size of the store whose recovery is timed; 0 for none.
  std::ostream* log = &std::cerr;        ///< Receives problems, a line for each segment.
};

struct CrashReport {
  uint32_t rounds = 0;
  History::Totals totals;  ///< Totals of rounds with puts alone.
  /// Totals of rounds with documents, pins and open contexts.
  ServerHistory::Totals document_totals;
  std::map<std::string, uint64_t> killed_at;  ///< By fault point, and "random_moment".
  /// Problems that fsck found before the store was opened again.
  uint64_t fsck_problems = 0;
  /// Space problems in directories with documents, after a clean close: findings of fsck, counts
  /// that differ from the server's, bytes left after deleting everything.
  uint64_t space_problems = 0;
  Duration slowest_reopen{};     ///< Slowest reopening of a store in the rounds.
  uint64_t recovered_bytes = 0;  ///< Payload of the store whose recovery was timed.
  Duration recovery{};

  double recovery_seconds_per_gib() const;
  bool sound() const {
    return totals.sound() && document_totals.sound() && fsck_problems == 0 && space_problems == 0;
  }
};

/// Number of steps that RunCrashes reports.
inline uint64_t CrashSteps(const CrashOptions& options) {
  return options.rounds + (options.recovery_bytes > 0 ? 1 : 0);
}

/// Runs the rounds. Errors concern the test machinery: a server that cannot be started, ends
/// unasked, or leaves a store that cannot be opened. The report has the faults of the store.
StatusOr<CrashReport> RunCrashes(const CrashOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CRASH_RUN_H_
