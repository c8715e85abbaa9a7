// SPDX-License-Identifier: Apache-2.0
//
// The process of one client of a load. It works on its own documents for a given time, then deletes
// the rest. It reports the results of its calls on standard output.
#ifndef QUIRE_BENCH_TORTURE_CLIENTS_LOAD_CHILD_H_
#define QUIRE_BENCH_TORTURE_CLIENTS_LOAD_CHILD_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/torture/clients/load_client.h"
#include "quire/status.h"

namespace quire::torture {

struct LoadChildOptions {
  std::string address;  ///< Address of the server.
  uint32_t number = 0;  ///< Number of the client; clients of one seed draw from the same texts.
  uint64_t seed = 1;
  uint32_t seconds = 120;

  /// Arguments for the command that runs RunLoadChild.
  std::vector<std::string> ToArguments() const;
};

/// Runs the client, and writes its totals to `out` as one line.
[[nodiscard]] Status RunLoadChild(const LoadChildOptions& options, std::ostream& out);

/// Parses the line that a client wrote. INTERNAL when it is malformed.
StatusOr<LoadTotals> ParseLoadTotals(const std::string& line);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLIENTS_LOAD_CHILD_H_
