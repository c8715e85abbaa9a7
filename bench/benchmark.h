// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of `quire bench`: each measures Quire and its limit or its rival in the same run, and
// gives a table for people and one object for programs (ratios first, then raw figures, sizes and
// repeat counts). A new one is a folder NAME with one function that adds it, a line below and one
// in cmd_bench.cc.
#ifndef QUIRE_BENCH_BENCHMARK_H_
#define QUIRE_BENCH_BENCHMARK_H_

#include <functional>

#include "apps/kit/command.h"
#include "apps/kit/json_output.h"
#include "apps/kit/table.h"
#include "common/base/status.h"

namespace quire::bench {

struct BenchReport {
  cli::Json json;
  cli::Table table;
};

/// Where benchmarks are added: the program's commands and the command `bench` among them.
struct Benches {
  cli::Commands& commands;
  CLI::App& parent;

  /// Adds `quire bench NAME`; `run` is called when it was named and parsed. The caller adds options
  /// to what is returned.
  CLI::App& Add(const cli::Commands::Spec& spec,
                std::function<StatusOr<BenchReport>(const cli::CommandContext&)> run);
};

/// Answers that every retrieval policy gets right at several budgets, against full attention.
void AddAnswersBench(Benches& benches);
/// Tokens per second of a batch against one sequence after another.
void AddBatchBench(Benches& benches);
/// Size, speed, error and lost answers of the page codecs.
void AddCodecBench(Benches& benches);
/// Step and stall time with the pages in a remote server, ablated, and beside rivals.
void AddDecodeBench(Benches& benches);
/// Bytes that recalls move against sending each selection again, on the synthetic stream and a
/// model; what the slots hold is checked after every step.
void AddElasticBench(Benches& benches);
/// What every retrieval policy captures of exact attention, on the synthetic stream and on steps of
/// a model.
void AddPolicyBench(Benches& benches);
/// A recall session against sending everything again, against memcpy of the same bytes; over
/// loopback and over gRPC.
void AddRecallBench(Benches& benches);
/// Scoring digests against reading them, and the selections of the fast kernels against the
/// reference's.
void AddSelectBench(Benches& benches);
/// Unit reads from DRAM against memcpy, unit reads and ingest on SSD against a raw io_uring loop
/// and BlobDB.
void AddStoreBench(Benches& benches);
/// What each eviction policy saves on a trace of requests.
void AddTraceBench(Benches& benches);
/// Recalls over every transport against raw programs and other stores.
void AddTransportBench(Benches& benches);

/// Name of the processor and number of CPUs, for the report.
cli::Json Machine();

}  // namespace quire::bench

#endif  // QUIRE_BENCH_BENCHMARK_H_
