// SPDX-License-Identifier: Apache-2.0
//
// Cluster: reads of documents from one server and from two and three, in one process on loopback
// sockets. More servers on the same processors should cost no more processor time for a byte. Then
// reads with one slow node, hedged and not, and what the router adds to a call. Then the runs that
// move when a node joins or leaves, and the shares of three owners of a hot document in its reads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.h"
#include "bench/cluster/cluster_servers.h"
#include "bench/cluster/router_overhead.h"
#include "bench/kit/median.h"
#include "bench/placement/moved_runs.h"
#include "bench/transport/cpu_time.h"
#include "quire/clock.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr double kGiB = 1 << 30;
constexpr uint32_t kMostServers = 3;
/// Reads that tell the pace, before the node becomes slow.
constexpr uint32_t kHealthyReads = 128;

struct ClusterBenchOptions {
  uint32_t documents = 24;
  uint32_t rounds = 8;
  uint32_t repeats = 5;
  uint32_t slow_reads = 300;
  uint32_t slow_millis = 20;
  uint32_t runs = 100'000;
};

/// Reads all of the documents a number of times.
struct ReadFigures {
  double cpu_seconds_per_gib = 0;
  double gib_per_second = 0;
};

std::vector<UnitRange> WholeDocument() {
  const KvSpec spec = ClusterSpec();
  std::vector<uint32_t> pages(spec.segment_pages);
  std::iota(pages.begin(), pages.end(), 0u);
  std::vector<UnitRange> ranges;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    ranges.push_back({.layer = layer, .pages = pages});
  }
  return ranges;
}

StatusOr<ReadFigures> ReadAll(const std::vector<ClusterServers::Reader>& readers, uint32_t rounds) {
  const std::vector<UnitRange> ranges = WholeDocument();
  QUIRE_ASSIGN_OR_RETURN(const Duration cpu_before, CpuTime({}));
  const TimePoint start = SystemClock().Now();
  uint64_t bytes = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < readers.size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(
          const Payload read,
          readers[i].client->Fetch(DocumentName{.name = ClusterDocument(i)}, ranges));
      bytes += read.size_bytes();
    }
  }
  const std::chrono::duration<double> time = SystemClock().Now() - start;
  QUIRE_ASSIGN_OR_RETURN(const Duration cpu_after, CpuTime({}));
  const std::chrono::duration<double> cpu = cpu_after - cpu_before;
  const double gib = static_cast<double>(bytes) / kGiB;
  return ReadFigures{.cpu_seconds_per_gib = cpu.count() / gib,
                     .gib_per_second = gib / time.count()};
}

/// Figures by number of servers, the median of the repeats, which take turns.
StatusOr<std::map<uint32_t, ReadFigures>> MeasureReads(const ClusterBenchOptions& options) {
  std::map<uint32_t, std::unique_ptr<ClusterServers>> servers;
  std::map<uint32_t, std::vector<ClusterServers::Reader>> readers;
  for (uint32_t number = 1; number <= kMostServers; ++number) {
    QUIRE_ASSIGN_OR_RETURN(servers[number],
                           ClusterServers::Start(number, options.documents, /*replicas=*/1));
    for (uint32_t i = 0; i < options.documents; ++i) {
      QUIRE_ASSIGN_OR_RETURN(readers[number].emplace_back(),
                             servers[number]->ReaderOf(i, /*hedge=*/false));
    }
    QUIRE_RETURN_IF_ERROR(ReadAll(readers[number], 1).status());
  }
  std::map<uint32_t, std::vector<double>> cpu, rate;
  for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
    for (const auto& [number, of_number] : readers) {
      QUIRE_ASSIGN_OR_RETURN(const ReadFigures figures, ReadAll(of_number, options.rounds));
      cpu[number].push_back(figures.cpu_seconds_per_gib);
      rate[number].push_back(figures.gib_per_second);
    }
  }
  std::map<uint32_t, ReadFigures> medians;
  for (const auto& [number, values] : cpu) medians[number] = {Median(values), Median(rate[number])};
  return medians;
}

/// Milliseconds of reads of one layer's page, in order of size.
StatusOr<std::vector<double>> TimeReads(const ClusterServers::Reader& reader, uint32_t reads) {
  const std::vector<UnitRange> page = {{.layer = 0, .pages = {0}}};
  std::vector<double> times;
  for (uint32_t i = 0; i < reads; ++i) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(
        reader.client->Fetch(DocumentName{.name = ClusterDocument(0)}, page).status());
    const std::chrono::duration<double, std::milli> time = SystemClock().Now() - start;
    times.push_back(time.count());
  }
  std::ranges::sort(times);
  return times;
}

double P99(const std::vector<double>& sorted) { return sorted[sorted.size() * 99 / 100]; }

struct SlowNodeFigures {
  double healthy_p99_ms = 0;
  double unhedged_p99_ms = 0;
  double hedged_p99_ms = 0;
  double hedged_share = 0;
};

StatusOr<SlowNodeFigures> MeasureSlowNode(const ClusterBenchOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto servers, ClusterServers::Start(2, 1, /*replicas=*/2));
  QUIRE_ASSIGN_OR_RETURN(const auto hedged, servers->ReaderOf(0, /*hedge=*/true));
  QUIRE_ASSIGN_OR_RETURN(const auto unhedged, servers->ReaderOf(0, /*hedge=*/false));
  QUIRE_RETURN_IF_ERROR(TimeReads(hedged, kHealthyReads).status());
  QUIRE_ASSIGN_OR_RETURN(const auto healthy, TimeReads(unhedged, options.slow_reads));
  servers->SlowDown(0, std::chrono::milliseconds(options.slow_millis));
  const uint64_t before = hedged.connection->counters().hedged;
  QUIRE_ASSIGN_OR_RETURN(const auto slow, TimeReads(unhedged, options.slow_reads));
  QUIRE_ASSIGN_OR_RETURN(const auto quick, TimeReads(hedged, options.slow_reads));
  const uint64_t asked_twice = hedged.connection->counters().hedged - before;
  return SlowNodeFigures{.healthy_p99_ms = P99(healthy),
                         .unhedged_p99_ms = P99(slow),
                         .hedged_p99_ms = P99(quick),
                         .hedged_share = static_cast<double>(asked_twice) / options.slow_reads};
}

/// Shares of the nodes that own a hot document in its reads.
struct HotFigures {
  double smallest_share = 0;
  double largest_share = 0;
};

StatusOr<HotFigures> MeasureHot(const ClusterBenchOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto servers,
                         ClusterServers::Start(kMostServers, 1, /*replicas=*/kMostServers));
  servers->Heat(0);
  QUIRE_ASSIGN_OR_RETURN(const auto reader, servers->ReaderOf(0, /*hedge=*/false));
  QUIRE_RETURN_IF_ERROR(TimeReads(reader, options.slow_reads).status());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint64_t> served, servers->BytesServed(0));
  const double all = std::accumulate(served.begin(), served.end(), 0.0);
  const auto [smallest, largest] = std::ranges::minmax(served);
  return HotFigures{.smallest_share = static_cast<double>(smallest) / all,
                    .largest_share = static_cast<double>(largest) / all};
}

void AddPlacement(uint32_t runs, cli::Json* json) {
  const auto keys = RunKeys(runs);
  const auto three = OwnersOfAll(NodesOf(3), keys), four = OwnersOfAll(NodesOf(4), keys);
  const double share = static_cast<double>(std::ranges::count(four, 3u)) / runs;
  (*json)["moved_vs_ideal_join"] = Moved(three, four) / share;
  (*json)["moved_vs_ideal_leave"] = Moved(four, three) / share;
  (*json)["most_over_mean"] = MostOverMean(three, 3);
}

StatusOr<BenchReport> RunCluster(const ClusterBenchOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(auto reads, MeasureReads(options));
  QUIRE_ASSIGN_OR_RETURN(const SlowNodeFigures slow, MeasureSlowNode(options));
  QUIRE_ASSIGN_OR_RETURN(const HotFigures hot, MeasureHot(options));
  QUIRE_ASSIGN_OR_RETURN(const RouterOverhead router,
                         MeasureRouterOverhead(100'000, options.repeats));
  BenchReport report{.json = {{"benchmark", "cluster"}},
                     .table = cli::Table({{"FIGURE"}, {"VALUE", cli::Table::kRight}})};
  cli::Json& json = report.json;
  json["cpu_per_gib_3_vs_1"] =
      reads[kMostServers].cpu_seconds_per_gib / reads[1].cpu_seconds_per_gib;
  json["hedged_vs_unhedged_p99"] = slow.hedged_p99_ms / slow.unhedged_p99_ms;
  json["router_us"] = router.call_us;
  json["router_hedged_read_us"] = router.hedged_read_us;
  AddPlacement(options.runs, &json);
  json["healthy_p99_ms"] = slow.healthy_p99_ms;
  json["unhedged_p99_ms"] = slow.unhedged_p99_ms;
  json["hedged_p99_ms"] = slow.hedged_p99_ms;
  json["hedged_share"] = slow.hedged_share;
  json["hot_smallest_share"] = hot.smallest_share;
  json["hot_largest_share"] = hot.largest_share;
  for (const auto& [key, value] : json.items()) {
    if (value.is_number()) report.table.AddRow({key, cli::FormatRatio(value.get<double>())});
  }
  cli::Json by_servers = cli::Json::array();
  for (const auto& [number, figures] : reads) {
    by_servers.push_back({{"servers", number},
                          {"cpu_seconds_per_gib", figures.cpu_seconds_per_gib},
                          {"gib_per_s", figures.gib_per_second}});
    const std::string of = " with " + std::to_string(number) + " servers";
    report.table.AddRow({"cpu s/GiB" + of, cli::FormatRatio(figures.cpu_seconds_per_gib)});
    report.table.AddRow({"GiB/s" + of, cli::FormatRatio(figures.gib_per_second)});
  }
  json["servers"] = std::move(by_servers);
  json["documents"] = options.documents;
  json["rounds"] = options.rounds;
  json["repeats"] = options.repeats;
  json["slow_reads"] = options.slow_reads;
  json["slow_millis"] = options.slow_millis;
  json["machine"] = Machine();
  return report;
}

}  // namespace

void AddClusterBench(Benches& benches) {
  const auto options = std::make_shared<ClusterBenchOptions>();
  CLI::App& command = benches.Add(
      {.name = "cluster",
       .summary = "Reads from one server and from several, hedged reads, and the router's cost",
       .examples = "  quire bench cluster\n  quire bench cluster --rounds 16 --json"},
      [options](const cli::CommandContext&) { return RunCluster(*options); },
      {.plot = PlotterOf({{.title = "Work of a read, by servers that it comes from",
                           .place_title = "servers",
                           .value_title = "CPU seconds a GiB",
                           .lines = {{.figures = R"(/servers/(\d+)/cpu_seconds_per_gib)",
                                      .name = "all processes",
                                      .place = "{/servers/$1/servers}"}}}})});
  const auto add = [&](const char* name, uint32_t* value, uint32_t most, const char* what) {
    command.add_option(name, *value, what)
        ->check(CLI::Range(uint32_t{1}, most))
        ->capture_default_str();
  };
  add("--documents", &options->documents, 40, "Documents of 4 MiB");
  add("--rounds", &options->rounds, 1000, "Reads of each document in a repeat");
  add("--repeats", &options->repeats, 100, "Repeats of each figure");
  add("--slow-reads", &options->slow_reads, 100'000,
      "Reads with a slow node, and of a hot document");
  add("--slow-millis", &options->slow_millis, 1000, "How much longer the slow node takes");
  add("--runs", &options->runs, 10'000'000, "Runs that are placed");
}

}  // namespace quire::bench
