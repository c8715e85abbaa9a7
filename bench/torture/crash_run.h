// SPDX-License-Identifier: Apache-2.0
//
// CrashRun: servers under load are killed, at random moments and inside fault points, and what they
// leave behind is compared with what they had acknowledged. Rounds take turns by eight: of puts
// alone, and of documents that are pinned, expire and are deleted, with contexts open; every other
// of these stores has a limit and evicts what no document names.
//
// A process that dies takes nothing with it that it had written: the page cache is the system's.
// So acknowledgements of every durability are held against the store; only a power failure tells
// them apart, and that is tested with FaultEngine (page_store_faults_test).
#ifndef QUIRE_BENCH_TORTURE_CRASH_RUN_H_
#define QUIRE_BENCH_TORTURE_CRASH_RUN_H_

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "bench/torture/history.h"
#include "bench/torture/server_history.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::torture {

/// Told after each step of a run with a word on what is at hand.
using Progress = std::function<void(const std::string& note)>;

struct CrashOptions {
  std::string directory;             ///< Exists; its subdirectory "crash" is used and removed.
  std::vector<std::string> command;  ///< Program and arguments that run RunCrashChild.
  uint32_t rounds = 50;
  uint64_t seed = 1;
  uint64_t events = 2000;                ///< Of a round, after which it is killed at the latest.
  uint64_t recovery_bytes = 1ull << 30;  ///< What the store holds whose recovery is timed; 0: none.
  std::ostream* log = &std::cerr;        ///< Told what is wrong, a line for each segment.
};

struct CrashReport {
  uint32_t rounds = 0;
  History::Totals totals;                     ///< Of rounds of puts alone.
  ServerHistory::Totals document_totals;      ///< Of rounds with documents, pins and open contexts.
  std::map<std::string, uint64_t> killed_at;  ///< By fault point, and "random_moment".
  uint64_t fsck_problems = 0;                 ///< Found before the store was opened again.
  /// Problems of space in directories with documents, after a clean close: findings of fsck, counts
  /// that differ from the server's, bytes left after everything was deleted.
  uint64_t space_problems = 0;
  Duration slowest_reopen{};     ///< Of the rounds.
  uint64_t recovered_bytes = 0;  ///< Payload of the store whose recovery was timed.
  Duration recovery{};

  double recovery_seconds_per_gib() const;
  bool sound() const {
    return totals.sound() && document_totals.sound() && fsck_problems == 0 && space_problems == 0;
  }
};

/// Steps that RunCrashes tells its progress of.
inline uint64_t CrashSteps(const CrashOptions& options) {
  return options.rounds + (options.recovery_bytes > 0 ? 1 : 0);
}

/// Errors are of the machinery: a server that cannot be started, ends by itself, or leaves a store
/// that cannot be opened. What the store did wrong is in the report.
StatusOr<CrashReport> RunCrashes(const CrashOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CRASH_RUN_H_
