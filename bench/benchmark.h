// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of `quire bench`. Each measures Quire and its limit or its rival in the same run. It
// gives a table for people and one object for programs: ratios first, then raw figures, sizes and
// repeat counts. Figures that are a series are declared (report_plot.h), and drawn. A new benchmark
// is a folder NAME with one function that adds it, a line below and one in cmd_bench.cc.
#ifndef QUIRE_BENCH_BENCHMARK_H_
#define QUIRE_BENCH_BENCHMARK_H_

#include <functional>
#include <string>

#include "apps/kit/command.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "bench/kit/report_plot.h"
#include "bench/kit/report_views.h"
#include "quire/status.h"

namespace quire::bench {

struct BenchReport {
  cli::Json json;
  cli::Table table;
};

/// Other views of a benchmark's report, from now or from earlier.
struct ReportViews {
  Plotter plot = nullptr;  ///< Null: the report has no series.
  /// Makes an earlier report anew for people; null: only its plot is made.
  std::function<StatusOr<BenchReport>(cli::Json report)> show = nullptr;
};

/// The program's commands and its command `bench`, which benchmarks are added to.
struct Benches {
  cli::Commands& commands;
  CLI::App& parent;

  /// Adds `quire bench NAME`. `run` is called when that command was parsed. The caller adds options
  /// to the result. A report with a plot brings --plot, and --from for earlier reports.
  CLI::App& Add(const cli::Commands::Spec& spec,
                std::function<StatusOr<BenchReport>(const cli::CommandContext&)> run,
                ReportViews views = {});
};

/// Hits of agents whose turns repeat their prompts, before and after a restart.
void AddAgentsBench(Benches& benches);
/// Accuracy of every retrieval policy at several budgets, against full attention.
void AddAnswersBench(Benches& benches);
/// Tokens per second of a batch against one sequence after another.
void AddBatchBench(Benches& benches);
/// Reads from one server and from several, reads with a slow node, and what the router costs.
void AddClusterBench(Benches& benches);
/// Size, speed, error and lost answers of the page codecs.
void AddCodecBench(Benches& benches);
/// Step and stall time with the pages in a remote server, ablated, and against rivals.
void AddDecodeBench(Benches& benches);
/// Bytes that recalls move against sending each selection again, on the synthetic stream and a
/// model. Checks the slots after every step.
void AddElasticBench(Benches& benches);
/// Time to the first token in vLLM, alone, with the stores of others, and with Quire.
void AddEnginesBench(Benches& benches);
/// Throughput of a sequence that outgrows the device's memory, layer by layer and all at once.
void AddGrowthBench(Benches& benches);
/// Gets and puts of opaque objects over shared memory and TCP, against Redis.
void AddObjectsBench(Benches& benches);
/// Time to place a run, balance of nodes, and runs that move when nodes come and go, against
/// placement by remainder.
void AddPlacementBench(Benches& benches);
/// Share of exact attention that every retrieval policy captures, on the synthetic stream and on
/// steps of a model.
void AddPolicyBench(Benches& benches);
/// Answers, divergence and time to the first token of every method of reuse over documents that
/// were stored alone, against full prefill.
void AddRagBench(Benches& benches);
/// A recall session against sending everything again, and against memcpy of the same bytes; over
/// loopback and over gRPC.
void AddRecallBench(Benches& benches);
/// Look-ups, listings, filters and ingests of many small documents, against empty calls and syncs.
void AddRegistryBench(Benches& benches);
/// Scoring digests against reading them, and the selections of the fast kernels against the
/// reference's.
void AddSelectBench(Benches& benches);
/// Quality and cost of a retrieval head's selections, in each mode and at each granularity, against
/// the best pages, Quest and full attention.
void AddSpeContextBench(Benches& benches);
/// Launches and host waits of a decode step, for batches of 1, 4 and 16 sequences.
void AddStepBench(Benches& benches);
/// Unit reads from DRAM against memcpy; unit reads and ingest on SSD against a raw io_uring loop
/// and BlobDB.
void AddStoreBench(Benches& benches);
/// Savings of each eviction policy on a trace of requests.
void AddTraceBench(Benches& benches);
/// Cost of traces to a recall, while off and sampled.
void AddTracingBench(Benches& benches);
/// Recalls over every transport against raw programs and other stores.
void AddTransportBench(Benches& benches);

/// Name of the processor and number of CPUs, for the report.
cli::Json Machine();

}  // namespace quire::bench

#endif  // QUIRE_BENCH_BENCHMARK_H_
