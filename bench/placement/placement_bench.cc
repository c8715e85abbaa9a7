// SPDX-License-Identifier: Apache-2.0
//
// Placement: the time to find the owners of a run, the balance of nodes, and the runs that move
// when a node joins or leaves. The limit is the share of runs that the node gains or loses. The
// rival places by the remainder of the hash.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "bench/kit/median.h"
#include "bench/placement/moved_runs.h"
#include "cluster/placement/placement.h"
#include "quire/clock.h"

namespace quire::bench {
namespace {

using cluster::Placement;

struct PlacementOptions {
  uint32_t runs = 100'000;
  uint32_t repeats = 5;
};

/// Nanoseconds for one run, the median of the repeats.
double NanosOf(const Placement& placement, uint32_t replicas,
               const std::vector<cluster::PlacementKey>& keys, uint32_t repeats) {
  std::vector<double> nanos;
  uint64_t sum = 0;
  for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
    const TimePoint start = SystemClock().Now();
    for (const cluster::PlacementKey key : keys) {
      sum += placement.OwnersOf(key, replicas).members[0];
    }
    nanos.push_back(static_cast<double>((SystemClock().Now() - start).count()) /
                    static_cast<double>(keys.size()));
  }
  // Uses what was computed, so that it is computed.
  return Median(nanos) + (sum == UINT64_MAX ? 1 : 0);
}

std::vector<uint32_t> Remainders(const std::vector<cluster::PlacementKey>& keys, uint32_t nodes) {
  std::vector<uint32_t> owners(keys.size());
  std::ranges::transform(keys, owners.begin(), [nodes](const cluster::PlacementKey& key) {
    return static_cast<uint32_t>(key.hash % nodes);
  });
  return owners;
}

StatusOr<BenchReport> RunPlacement(const PlacementOptions& options) {
  const auto keys = RunKeys(options.runs);
  BenchReport report{.json = {{"benchmark", "placement"}},
                     .table = cli::Table({{"NODES", cli::Table::kRight},
                                          {"NS, 1 REPLICA", cli::Table::kRight},
                                          {"NS, 3 REPLICAS", cli::Table::kRight},
                                          {"MOST OVER MEAN", cli::Table::kRight},
                                          {"MOVED VS IDEAL", cli::Table::kRight},
                                          {"BY REMAINDER", cli::Table::kRight}})};
  cli::Json sizes = cli::Json::array();
  for (const uint32_t nodes : {3u, 10u, 100u}) {
    const Placement placement = NodesOf(nodes);
    const auto owners = OwnersOfAll(placement, keys);
    // Share of a node that joins. A leave is the same read backwards.
    const double ideal = 1.0 / (nodes + 1);
    const double moved = Moved(owners, OwnersOfAll(NodesOf(nodes + 1), keys)) / ideal;
    const double by_remainder = Moved(Remainders(keys, nodes), Remainders(keys, nodes + 1)) / ideal;
    const double one = NanosOf(placement, 1, keys, options.repeats);
    const double three = NanosOf(placement, 3, keys, options.repeats);
    const double balance = MostOverMean(owners, nodes);
    report.table.AddRow({cli::FormatCount(nodes), cli::FormatRatio(one, 0),
                         cli::FormatRatio(three, 0), cli::FormatRatio(balance),
                         cli::FormatRatio(moved), cli::FormatRatio(by_remainder)});
    sizes.push_back({{"nodes", nodes},
                     {"moved_vs_ideal", moved},
                     {"moved_vs_ideal_by_remainder", by_remainder},
                     {"most_over_mean", balance},
                     {"ns_1_replica", one},
                     {"ns_3_replicas", three}});
  }
  report.json["moved_vs_ideal"] = sizes[0]["moved_vs_ideal"];
  report.json["ns_3_nodes"] = sizes[0]["ns_1_replica"];
  report.json["sizes"] = std::move(sizes);
  report.json["runs"] = options.runs;
  report.json["repeats"] = options.repeats;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddPlacementBench(Benches& benches) {
  const auto options = std::make_shared<PlacementOptions>();
  CLI::App& command = benches.Add(
      {.name = "placement",
       .summary = "Time to place a run, balance of nodes, and runs that move",
       .examples = "  quire bench placement\n  quire bench placement --runs 1000000 --json"},
      [options](const cli::CommandContext&) { return RunPlacement(*options); },
      {.plot = PlotterOf({{.title = "Time to place a run",
                           .place_title = "nodes",
                           .value_title = "ns",
                           .lines = {{.figures = R"(/sizes/(\d+)/ns_(\d+_replicas?))",
                                      .name = "$2",
                                      .place = "{/sizes/$1/nodes}"}}}})});
  command.add_option("--runs", options->runs, "Runs that are placed")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command.add_option("--repeats", options->repeats, "Repeats of each timing")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

}  // namespace quire::bench
