// SPDX-License-Identifier: Apache-2.0
//
// quire_sim: simulates a cluster, every scenario with many seeds. `./dev sim` starts it. The exit
// code is 1 when a promise was broken; the seed repeats the run.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "tests/kit/paths.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_scenario.h"

namespace quire::sim {
namespace {

struct SimArgs {
  uint64_t seeds = 200;
  uint64_t first_seed = 1;
  std::string scenario = {};  ///< Empty: all of them in turn.
  bool verbose = false;
  bool story = false;
};

void Print(const SimScenario& scenario, uint64_t seed, const SimReport& report) {
  std::cout << scenario.name << " seed " << seed << ": " << report.registered << " registered, "
            << report.deleted << " deleted, " << report.found << " found, " << report.faults
            << " faults, " << report.events << " events, settled after " << report.settle_seconds
            << " s, fingerprint " << report.fingerprint << "\n";
}

/// Returns the number of broken runs.
uint64_t RunAll(const SimArgs& args, const std::vector<SimScenario>& scenarios) {
  uint64_t broken = 0;
  for (uint64_t i = 0; i < args.seeds; ++i) {
    const SimScenario& scenario = scenarios[i % scenarios.size()];
    const uint64_t seed = args.first_seed + i;
    const SimReport report = RunSimulation(scenario, seed);
    if (args.verbose || !report.broken.empty()) Print(scenario, seed, report);
    for (const std::string& promise : report.broken) std::cout << "  " << promise << "\n";
    if (args.story) {
      for (const std::string& line : report.story) std::cout << "  " << line << "\n";
    }
    if (report.broken.empty()) continue;
    ++broken;
    std::cout << "  repeat with: ./dev sim --scenario " << scenario.name << " --first-seed " << seed
              << " --seeds 1\n";
  }
  return broken;
}

int Main(int argc, char** argv) {
  SimArgs args;
  CLI::App app("Simulates a cluster and checks its promises");
  app.add_option("--seeds", args.seeds, "Runs")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--first-seed", args.first_seed, "Of the first run")->capture_default_str();
  app.add_option("--scenario", args.scenario, "One of tests/sim/scenarios; all by default");
  app.add_flag("--verbose", args.verbose, "Print every run");
  app.add_flag("--story", args.story, "Print what clients asked for and were told");
  CLI11_PARSE(app, argc, argv);
  auto scenarios = ReadScenarios(QUIRE_SOURCE_DIR "/tests/sim/scenarios");
  if (!scenarios.ok()) {
    std::cerr << scenarios.status() << "\n";
    return 1;
  }
  if (!args.scenario.empty()) {
    std::erase_if(*scenarios, [&](const SimScenario& one) { return one.name != args.scenario; });
  }
  if (scenarios->empty()) {
    std::cerr << "there is no scenario '" << args.scenario << "'\n";
    return 2;
  }
  const uint64_t broken = RunAll(args, *scenarios);
  std::cout << args.seeds << " runs, " << broken << " broken\n";
  return broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quire::sim

int main(int argc, char** argv) { return quire::sim::Main(argc, argv); }
