// SPDX-License-Identifier: Apache-2.0
//
// quire bench: one subcommand for each benchmark (benchmark.h).
#include <CLI/CLI.hpp>

#include "apps/quire_bench/commands.h"
#include "bench/benchmark.h"

namespace quire::cli {

void AddBenchCommand(Commands& commands) {
  CLI::App& command = commands.AddGroup(
      {.name = "bench",
       .summary = "Measure against the machine's limits and the rivals, in the same run",
       .examples = "  quire bench recall\n"
                   "  quire bench recall --steps 256 --json\n"
                   "  quire bench agents --json\n"
                   "  quire bench answers --policies freekv --samples 24\n"
                   "  quire bench batch --json\n"
                   "  quire bench cluster --json\n"
                   "  quire bench codec --questions 12\n"
                   "  quire bench decode --context 8192 --budget 1024\n"
                   "  quire bench elastic --json\n"
                   "  quire bench engines --json\n"
                   "  quire bench objects --json\n"
                   "  quire bench placement --json\n"
                   "  quire bench policy --json\n"
                   "  quire bench rag --json\n"
                   "  quire bench registry --json\n"
                   "  quire bench select --json\n"
                   "  quire bench specontext --json\n"
                   "  quire bench step --json\n"
                   "  quire bench store --json\n"
                   "  quire bench trace --cache-fraction 0.1\n"
                   "  quire bench tracing --json\n"
                   "  quire bench transport --json\n"
                   "Every benchmark has its own help: quire bench NAME --help",
       .calls_no_server = true});
  bench::Benches benches{.commands = commands, .parent = command};
  bench::AddAgentsBench(benches);
  bench::AddAnswersBench(benches);
  bench::AddBatchBench(benches);
  bench::AddClusterBench(benches);
  bench::AddCodecBench(benches);
  bench::AddDecodeBench(benches);
  bench::AddElasticBench(benches);
  bench::AddEnginesBench(benches);
  bench::AddGrowthBench(benches);
  bench::AddObjectsBench(benches);
  bench::AddPlacementBench(benches);
  bench::AddPolicyBench(benches);
  bench::AddRagBench(benches);
  bench::AddRecallBench(benches);
  bench::AddRegistryBench(benches);
  bench::AddSelectBench(benches);
  bench::AddSpeContextBench(benches);
  bench::AddStepBench(benches);
  bench::AddStoreBench(benches);
  bench::AddTraceBench(benches);
  bench::AddTracingBench(benches);
  bench::AddTransportBench(benches);
}

}  // namespace quire::cli
