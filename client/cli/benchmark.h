// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of `quire bench`: each measures Quire and its limit or its rival in the same run, on
// an embedded server, and gives a table for people and one object for programs (ratios first, then
// raw figures, sizes and repeat counts). A new one is a file bench_NAME.cc and a line in
// benchmark.cc.
#ifndef QUIRE_CLIENT_CLI_BENCHMARK_H_
#define QUIRE_CLIENT_CLI_BENCHMARK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/cli/json_output.h"
#include "client/cli/table.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::cli {

struct BenchOptions {
  uint32_t steps = 64;   ///< Decoding steps measured.
  std::string model;     ///< Model directory; the bundled one when empty.
  std::string data_dir;  ///< Of the embedded server; temporary when empty.
};

struct BenchReport {
  Json json;
  Table table;
};

struct Benchmark {
  std::string name;
  std::string summary;
  StatusOr<BenchReport> (*run)(const BenchOptions& options);
};

/// Every benchmark, in order of name.
std::span<const Benchmark> Benchmarks();

/// A recall session against sending everything again, against memcpy of the same bytes; over
/// loopback and over gRPC.
StatusOr<BenchReport> BenchRecall(const BenchOptions& options);
/// Tokens per second with every page resident and with a budget.
StatusOr<BenchReport> BenchDecode(const BenchOptions& options);

/// The middle value; 0 for none.
Duration Median(std::vector<Duration> times);
/// Name of the processor and number of CPUs, for the report.
Json Machine();

}  // namespace quire::cli

#endif  // QUIRE_CLIENT_CLI_BENCHMARK_H_
