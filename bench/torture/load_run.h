// SPDX-License-Identifier: Apache-2.0
//
// LoadRun: a server in a process of its own and clients that put, continue, read and delete
// documents which overlap. Nothing that was acknowledged may be missing, and when everything has
// been deleted nothing may stay.
#ifndef QUIRE_BENCH_TORTURE_LOAD_RUN_H_
#define QUIRE_BENCH_TORTURE_LOAD_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/torture/crash_run.h"
#include "bench/torture/load_client.h"
#include "common/base/status.h"

namespace quire::torture {

struct LoadOptions {
  std::string directory;             ///< Exists; its subdirectory "load" is used and removed.
  std::vector<std::string> command;  ///< Program and arguments that serve; where is added.
  uint32_t clients = 8;
  uint32_t seconds = 120;
  uint64_t seed = 1;
};

struct LoadReport {
  LoadTotals totals;
  double seconds = 0;
  uint64_t bytes_left = 0;  ///< Stored after everything was deleted, a minute later at most.
  double seconds_until_empty = 0;
  bool sound() const { return totals.not_found == 0 && totals.wrong_bytes == 0 && bytes_left == 0; }
};

/// Steps of `progress`: one a second. Errors are of the machinery; what the store did wrong is in
/// the report.
StatusOr<LoadReport> RunLoad(const LoadOptions& options, const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_LOAD_RUN_H_
