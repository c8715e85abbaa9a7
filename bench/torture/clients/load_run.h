// SPDX-License-Identifier: Apache-2.0
//
// LoadRun: a server and clients, each in its own process. The clients put, continue, read, ask and
// delete overlapping documents. Each client's pages differ in their last bits, as from different
// hardware. Acknowledged data must never be missing. After everything is deleted, nothing may
// remain: on the server, and for fsck after the server was killed.
#ifndef QUIRE_BENCH_TORTURE_CLIENTS_LOAD_RUN_H_
#define QUIRE_BENCH_TORTURE_CLIENTS_LOAD_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/torture/clients/load_client.h"
#include "bench/torture/crash_run.h"
#include "quire/status.h"

namespace quire::torture {

struct LoadOptions {
  std::string directory;  ///< Exists; its subdirectory "load" is used and removed.
  /// Program and arguments that serve; paths and address are added.
  std::vector<std::string> command;
  /// Program and arguments that run RunLoadChild; LoadChildOptions are added.
  std::vector<std::string> client_command;
  uint32_t clients = 8;
  uint32_t seconds = 120;
  uint64_t seed = 1;
};

struct LoadReport {
  static constexpr double kMostSecondsUntilEmpty = 60;

  LoadTotals totals;
  double seconds = 0;
  /// Bytes remaining at the server after everything was deleted, by counter of kLeftovers. Read
  /// when all of them are 0, or kMostSecondsUntilEmpty later.
  std::map<std::string, uint64_t> left;
  double seconds_until_empty = 0;
  /// Puts of segments already stored with other bytes, which remained.
  uint64_t puts_differed = 0;
  uint64_t fsck_problems = 0;  ///< Problems found once the server was killed.
  uint64_t fsck_segments = 0;

  uint64_t bytes_left() const;
  bool sound() const {
    return totals.not_found == 0 && totals.wrong_bytes == 0 && bytes_left() == 0 &&
           fsck_problems == 0 && fsck_segments == 0;
  }
};

/// Runs the load. Each second is a step of `progress`. Errors concern the test machinery; the
/// report has the faults of the store.
StatusOr<LoadReport> RunLoad(const LoadOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLIENTS_LOAD_RUN_H_
