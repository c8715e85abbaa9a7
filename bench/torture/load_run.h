// SPDX-License-Identifier: Apache-2.0
//
// LoadRun: a server and clients, each in a process of its own. The clients put, continue, read, ask
// and delete documents which overlap, each with pages of its own last bits, as from hardware of its
// own. Nothing that was acknowledged may be missing, and when everything has been deleted nothing
// may stay: on the server, and for fsck after it was killed.
#ifndef QUIRE_BENCH_TORTURE_LOAD_RUN_H_
#define QUIRE_BENCH_TORTURE_LOAD_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/torture/crash_run.h"
#include "bench/torture/load_client.h"
#include "quire/status.h"

namespace quire::torture {

struct LoadOptions {
  std::string directory;             ///< Exists; its subdirectory "load" is used and removed.
  std::vector<std::string> command;  ///< Program and arguments that serve; where is added.
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
  /// Bytes that the server still has after everything was deleted, by counter of kLeftovers. Read
  /// when all of them are 0, or kMostSecondsUntilEmpty later.
  std::map<std::string, uint64_t> left;
  double seconds_until_empty = 0;
  uint64_t puts_differed = 0;  ///< Of segments that were stored with other bytes, which stood.
  uint64_t fsck_problems = 0;  ///< Once the server was killed.
  uint64_t fsck_segments = 0;

  uint64_t bytes_left() const;
  bool sound() const {
    return totals.not_found == 0 && totals.wrong_bytes == 0 && bytes_left() == 0 &&
           fsck_problems == 0 && fsck_segments == 0;
  }
};

/// Steps of `progress`: one a second. Errors are of the machinery; what the store did wrong is in
/// the report.
StatusOr<LoadReport> RunLoad(const LoadOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_LOAD_RUN_H_
