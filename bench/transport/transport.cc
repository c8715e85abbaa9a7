// SPDX-License-Identifier: Apache-2.0
//
// Transport: moves scattered units from a server's DRAM into a client's slots, over shared memory,
// UCX and gRPC. The limits are minimal programs on the same wire; the rivals are Redis and Mooncake
// Store. All take turns in one run. The document is four times the last level cache, where memory
// holds all copies of it. Every way reads half of its own in a round. Ours go the whole way: a
// session plans the recall, parts stream, and every unit put into a slot is verified. In place, a
// round touches no byte of the units, since their reader verifies them. One round of each set, not
// timed, is verified.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "bench/benchmark.h"
#include "bench/kit/machine_facts.h"
#include "bench/kit/session_plan.h"
#include "bench/kit/side_by_side.h"
#include "bench/transport/comparison.h"
#include "bench/transport/congestion_control.h"
#include "bench/transport/copy_loops.h"
#include "bench/transport/raw_grpc.h"
#include "bench/transport/request_encoding.h"
#include "bench/transport/step_comparison.h"
#include "common/base/threads/stop_signals.h"

namespace quire::bench {
namespace {

constexpr uint32_t kPureRounds = 201;
const char* const kTransports[] = {"shm", "ucx_tcp", "grpc"};

std::string SizeOf(const TransportFigures& figures) {
  return std::to_string(figures.unit_bytes >> 10) + "k";
}

/// A contender's speed relative to the best of its limits, and the name of that limit.
struct Compared {
  double ratio;
  std::string limit;

  bool operator<(const Compared& other) const { return ratio < other.ratio; }
};

/// A ratio of the report: of scattered turns, or of those in order.
struct Ratio {
  std::string key;
  const char* contender;
  std::vector<std::string> limits;  ///< The best of them counts.
  std::string limit_key = {};       ///< Key for the name of the best limit; empty: not reported.
  TransportTurns TransportFigures::*turns = &TransportFigures::scattered;

  std::optional<Compared> Of(const TransportFigures& figures) const {
    std::optional<Compared> least;
    for (const std::string& limit : limits) {
      const auto ratio = TransportFigures::Ratio(figures.*turns, contender, limit);
      if (ratio) least = std::min(least.value_or(Compared{*ratio, limit}), {*ratio, limit});
    }
    return least;
  }
  /// `suffix` names the variant.
  void Report(const Compared& compared, const std::string& suffix, cli::Json* json) const {
    (*json)[key + suffix] = compared.ratio;
    if (!limit_key.empty()) (*json)[limit_key + suffix] = compared.limit;
  }
};

/// Adds the worst of both sizes, then each.
void AddRatio(const std::vector<TransportFigures>& sizes, const Ratio& ratio, cli::Json* json) {
  std::optional<Compared> worst;
  for (const TransportFigures& size : sizes) {
    const std::optional<Compared> of_size = ratio.Of(size);
    if (!of_size) continue;
    worst = std::min(worst.value_or(*of_size), *of_size);
    ratio.Report(*of_size, "_" + SizeOf(size), json);
  }
  if (worst) ratio.Report(*worst, "", json);
}

/// Ways to read Redis: over one connection or several, on either wire.
std::vector<std::string> RedisWays() {
  return {"redis_unix", "redis_unix_by_four", "redis_tcp", "redis_tcp_by_four"};
}

/// Speeds by contender, in GB/s.
std::map<std::string, double> SpeedsOf(const TransportFigures& size) {
  std::map<std::string, double> speeds;
  const double gigabytes = static_cast<double>(size.units_per_round * size.unit_bytes) / 1e9;
  for (const TransportTurns* turns : {&size.scattered, &size.in_order}) {
    for (const auto& [name, times] : *turns) {
      speeds.emplace(name, PerSecond(times, 1) * gigabytes);
    }
  }
  return speeds;
}

/// Adds the speed of scattered small units relative to large ones of the same transport, for each
/// transport and the worst. It shows the cost of moving the same bytes in smaller pieces.
void AddLargeUnitRatios(const std::vector<TransportFigures>& sizes, cli::Json* json) {
  const std::string key = "scatter_vs_large_units";
  const auto small = SpeedsOf(sizes.front()), large = SpeedsOf(sizes.back());
  std::optional<double> worst;
  for (const char* const transport : kTransports) {
    const auto of_small = small.find(transport), of_large = large.find(transport);
    if (of_small == small.end() || of_large == large.end()) continue;
    const double ratio = of_small->second / of_large->second;
    (*json)[key + "_" + transport] = ratio;
    worst = std::min(worst.value_or(ratio), ratio);
  }
  if (worst) (*json)[key] = *worst;
}

void AddRatios(const std::vector<TransportFigures>& sizes, cli::Json* json) {
  const Ratio ratios[] = {{"shm_vs_memcpy", "shm", CopyLoopNamesByOne(), "memcpy_way"},
                          {"shm_vs_memcpy_by_two", "shm", CopyLoopNames(), "memcpy_by_two_way"},
                          {"ucx_tcp_vs_raw", "ucx_tcp", {"raw_ucx_tcp"}},
                          {"grpc_vs_raw_stream", "grpc", {"raw_grpc"}},
                          {"shm_vs_redis", "shm", RedisWays(), "shm_vs_redis_way"},
                          {"ucx_tcp_vs_redis", "ucx_tcp", RedisWays(), "ucx_tcp_vs_redis_way"},
                          {"ucx_tcp_vs_mooncake", "ucx_tcp", {"mooncake_tcp"}}};
  for (const Ratio& ratio : ratios) AddRatio(sizes, ratio, json);
  std::optional<double> worst;
  for (const char* const transport : kTransports) {
    const Ratio ratio{.key = std::string("scatter_vs_contiguous_") + transport,
                      .contender = transport,
                      .limits = {std::string(transport) + "_contiguous"},
                      .turns = &TransportFigures::in_order};
    AddRatio(sizes, ratio, json);
    if (!json->contains(ratio.key)) continue;
    const double of_transport = (*json)[ratio.key].get<double>();
    worst = std::min(worst.value_or(of_transport), of_transport);
  }
  if (worst) (*json)["scatter_vs_contiguous"] = *worst;
  AddLargeUnitRatios(sizes, json);
}

/// Adds CPU seconds per GiB moved, for both ends of a contender.
void AddCpuTimes(const std::vector<TransportFigures>& sizes, cli::Json* json) {
  cli::Json& all = (*json)["cpu_s_per_gib"];
  for (const TransportFigures& size : sizes) {
    for (const auto& [name, use] : size.cpu) {
      const std::chrono::duration<double> seconds = use.time;
      all[name + "_" + SizeOf(size)] =
          seconds.count() * static_cast<double>(1 << 30) / static_cast<double>(use.bytes);
    }
  }
}

double Micros(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void AddFigures(const std::vector<TransportFigures>& sizes, cli::Json* json) {
  for (const TransportFigures& size : sizes) {
    const std::string of_size = "_" + SizeOf(size);
    for (const auto& [name, speed] : SpeedsOf(size)) {
      (*json)[name + of_size + "_gb_per_s"] = speed;
    }
    for (auto [name, times] : size.empty_recalls) {
      std::ranges::sort(times);
      (*json)["empty_recall_" + name + of_size + "_p50_us"] = Micros(times[times.size() / 2]);
      (*json)["empty_recall_" + name + of_size + "_p99_us"] =
          Micros(times[times.size() * 99 / 100]);
    }
    for (const auto& [name, why] : size.absent) (*json)["absent"][name] = why;
    for (const auto& [name, detail] : size.details) (*json)["details"][name] = detail;
    for (const auto& [name, use] : size.redis_threads) {
      (*json)["redis_io_threads"][name + of_size] = {
          {"io_threads_active", use.active}, {"threaded_writes_share", use.threaded_writes_share}};
    }
    for (const auto& [program, name] : size.congestion_controls) {
      (*json)["congestion_control"][program] = name;
    }
  }
  (*json)["congestion_control"]["host"] = HostCongestionControl();
}

/// A quantile of latencies, in microseconds.
double MicrosAt(std::vector<Duration> times, double share) {
  if (times.empty()) return 0;
  std::ranges::sort(times);
  const auto index = static_cast<size_t>(share * static_cast<double>(times.size()));
  return Micros(times[std::min(index, times.size() - 1)]);
}

constexpr std::pair<const char*, double> kLatencies[] = {{"p50", 0.5}, {"p99", 0.99}};

/// Adds the time of a rival's best way relative to each of ours, by p50 and by p99.
void AddStepRatios(const StepFigures& figures, const std::string& rival, cli::Json* json) {
  for (const auto& [quantile, share] : kLatencies) {
    std::optional<double> best;
    for (const auto& [name, times] : figures.times) {
      if (!name.starts_with(rival)) continue;
      const double took = MicrosAt(times, share);
      best = std::min(best.value_or(took), took);
    }
    if (!best) continue;
    for (const char* const ours : {"shm", "ucx_tcp", "grpc"}) {
      const auto times = figures.times.find(ours);
      if (times == figures.times.end()) continue;
      (*json)[std::string(ours) + "_vs_" + rival + "_" + quantile] =
          *best / MicrosAt(times->second, share);
    }
  }
}

void AddSteps(const std::vector<StepFigures>& steps, BenchReport* report) {
  for (const StepFigures& figures : steps) {
    cli::Json& json = report->json["step_recalls"]["units_" + std::to_string(figures.units)];
    AddStepRatios(figures, "redis", &json);
    AddStepRatios(figures, "mooncake", &json);
    json["bytes"] = figures.units * kStepUnitBytes;
    for (const auto& [name, times] : figures.times) {
      for (const auto& [quantile, share] : kLatencies) {
        json[name][std::string(quantile) + "_us"] = MicrosAt(times, share);
      }
      json[name]["recalls"] = times.size();
      const double seconds = MicrosAt(times, 0.5) / 1e6;
      report->table.AddRow({std::to_string(figures.units) + " units", name,
                            cli::FormatRatio(figures.units * kStepUnitBytes / 1e9 / seconds)});
    }
    for (const auto& [name, why] : figures.absent) json["absent"][name] = why;
  }
}

/// Adds the rates of several tenants of one server, and of one tenant alone.
void AddTenants(const std::vector<TenantFigures>& tenants, BenchReport* report) {
  for (const TenantFigures& figures : tenants) {
    cli::Json& json = report->json["tenants"][figures.transport];
    if (!figures.absent.empty()) {
      json["absent"] = figures.absent;
      continue;
    }
    const double total = figures.total_bytes_per_second();
    json["total_vs_alone"] = total / figures.alone_bytes_per_second;
    json["slowest_vs_fastest"] = figures.slowest_vs_fastest();
    json["total_gb_per_s"] = total / 1e9;
    json["alone_gb_per_s"] = figures.alone_bytes_per_second / 1e9;
    for (const double rate : figures.bytes_per_second) json["gb_per_s"].push_back(rate / 1e9);
    for (const auto& [quantile, share] : kLatencies) {
      json[std::string(quantile) + "_us"] = MicrosAt(figures.times, share);
    }
    json["recalls"] = figures.times.size();
    json["tenants"] = figures.bytes_per_second.size();
    json["units_per_recall"] = kTenantUnits;
    report->table.AddRow({std::to_string(figures.bytes_per_second.size()) + " tenants",
                          figures.transport, cli::FormatRatio(total / 1e9)});
  }
}

cli::Table TableOf(const std::vector<TransportFigures>& sizes) {
  cli::Table table({{"UNITS"}, {"WAY"}, {"GB/S", cli::Table::kRight}});
  for (const TransportFigures& size : sizes) {
    for (const auto& [name, speed] : SpeedsOf(size)) {
      table.AddRow({SizeOf(size), name, cli::FormatRatio(speed)});
    }
    for (const auto& [name, why] : size.absent) {
      table.AddRow({SizeOf(size), name + ": " + why, "-"});
    }
  }
  return table;
}

struct Options {
  TransportBenchOptions compare;
  std::string data_dir;
  std::string rivals_dir;
};

/// A note for a document smaller than required.
std::string CappedNote(uint64_t document_bytes, uint64_t cache_bytes) {
  return "document " + cli::FormatBytes(document_bytes) + ", less than " +
         std::to_string(kDocumentNeeds.caches) + " times the cache of " +
         cli::FormatBytes(cache_bytes) + ": memory holds no more copies";
}

/// INVALID_ARGUMENT for a name in `ways` of no contender and no part of the benchmark.
Status CheckWays(const std::vector<std::string>& ways, const TransportFigures& figures) {
  std::set<std::string> names = {"contiguous", "shm_in_place", "step_recalls", "tenants"};
  for (const auto& [name, turns] : figures.scattered) names.insert(name);
  for (const auto& [name, turns] : figures.in_order) names.insert(name);
  for (const auto& [name, why] : figures.absent) names.insert(name);
  for (const std::string& way : ways) {
    if (names.contains(way)) continue;
    return InvalidArgument("--ways: there is no '", way,
                           "'; without --ways the report has the names of all");
  }
  return OkStatus();
}

StatusOr<BenchReport> Run(Options options) {
  const uint64_t cache_bytes = LastLevelCacheBytes();
  bool capped = false;
  if (options.compare.document_bytes == 0) {
    const WorkingSet document = SizeWorkingSet(kDocumentNeeds, cache_bytes, AvailableMemoryBytes());
    options.compare.document_bytes = document.bytes;
    capped = document.capped;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  std::vector<TransportFigures> sizes;
  for (const uint64_t unit_bytes : {16u << 10, 128u << 10}) {
    TransportBenchOptions compare = options.compare;
    compare.directory = directory->path() + "/" + std::to_string(unit_bytes);
    compare.mooncake_environment =
        options.rivals_dir.empty() ? directory->path() + "/mooncake" : options.rivals_dir;
    QUIRE_ASSIGN_OR_RETURN(TransportFigures figures, CompareTransports(compare, unit_bytes));
    sizes.push_back(std::move(figures));
  }
  QUIRE_RETURN_IF_ERROR(CheckWays(options.compare.ways, sizes.front()));
  TransportBenchOptions few = options.compare;
  few.directory = directory->path();
  few.mooncake_environment =
      options.rivals_dir.empty() ? directory->path() + "/mooncake" : options.rivals_dir;
  std::vector<StepFigures> steps;
  if (few.Wants("step_recalls")) {
    QUIRE_ASSIGN_OR_RETURN(steps, CompareSteps(few));
  }
  std::vector<TenantFigures> tenants;
  if (few.Wants("tenants")) {
    QUIRE_ASSIGN_OR_RETURN(tenants, CompareTenants(few));
  }
  const RequestEncoding encoding = MeasureRequestEncoding(kPureRounds);
  QUIRE_ASSIGN_OR_RETURN(const SessionPlanFigures plan, MeasureSessionPlan(kPureRounds));
  BenchReport report{.json = {{"benchmark", "transport"}}, .table = TableOf(sizes)};
  AddRatios(sizes, &report.json);
  AddSteps(steps, &report);
  AddTenants(tenants, &report);
  const TransportFigures& small = sizes.front();
  if (const auto in_place = small.scattered.find("shm_in_place");
      in_place != small.scattered.end()) {
    report.json["shm_zero_copy_units_per_s"] = PerSecond(in_place->second, small.units_per_round);
  }
  report.json["encode_us_per_10k_units"] = encoding.us_per_10k_units;
  report.json["request_bytes_per_unit"] = encoding.bytes_per_unit;
  // The worst case, with every slot replaced; and a typical decode step, with a tenth missing.
  report.json["plan_us_per_10k_units"] = plan.plan_all_us_per_10k_units;
  report.json["plan_step_us_per_10k_units"] = plan.plan_us_per_10k_units;
  // All work of the session in the same recalls, including the planning.
  report.json["recall_us_per_10k_units"] = plan.recall_all_us_per_10k_units;
  report.json["recall_step_us_per_10k_units"] = plan.recall_us_per_10k_units;
  AddCpuTimes(sizes, &report.json);
  AddFigures(sizes, &report.json);
  report.json["document_bytes"] = options.compare.document_bytes;
  report.json["document_capped_by_memory"] = capped;
  report.json["last_level_cache_bytes"] = cache_bytes;
  if (capped) {
    report.table.AddRow({"", CappedNote(options.compare.document_bytes, cache_bytes), ""});
  }
  report.json["sets"] = options.compare.sets;
  report.json["rounds_per_set"] = options.compare.rounds;
  report.json["empty_recalls"] = options.compare.empty_recalls;
  report.json["step_recalls_each"] = options.compare.step_recalls;
  report.json["machine"] = Machine();
  return report;
}

/// The raw gRPC program's server, in a separate process.
void AddRawGrpcServer(Benches& benches) {
  struct Peer {
    RawGrpcShape shape;
    std::string port_file;
  };
  const auto peer = std::make_shared<Peer>();
  CLI::App& command = benches.commands.Add(
      {.name = "raw-grpc-server", .summary = "", .examples = ""},
      [peer](const cli::CommandContext&) -> Status {
        QUIRE_ASSIGN_OR_RETURN(const auto stop, StopSignals::Install());
        QUIRE_ASSIGN_OR_RETURN(const auto server, RawGrpcServer::Start(peer->shape));
        std::ofstream(peer->port_file) << server->port() << "\n";
        stop->Wait();
        return OkStatus();
      },
      &benches.parent);
  command.group("");  // Hidden in the help.
  command.add_option("--unit-bytes", peer->shape.unit_bytes)->required();
  command.add_option("--units", peer->shape.num_units)->required();
  command.add_option("--units-per-read", peer->shape.units_per_read)->required();
  command.add_option("--message-bytes", peer->shape.message_bytes)->required();
  command.add_option("--port-file", peer->port_file)->required();
}

}  // namespace

void AddTransportBench(Benches& benches) {
  AddRawGrpcServer(benches);
  const auto options = std::make_shared<Options>();
  CLI::App& command = benches.Add(
      {.name = "transport",
       .summary = "Recalls over shared memory, UCX and gRPC beside raw programs and rivals",
       .examples =
           "  quire bench transport --json\n"
           "  quire bench transport --sets 1 --rounds 3 --document-bytes 256MiB\n"
           "Every way holds units of the document's size: 11 copies in memory in all.\n"
           "Redis is started when redis-server is installed, and read over one connection\n"
           "and over four (_by_four), without which its I/O threads rest; Mooncake Store is\n"
           "installed from PyPI into --rivals-dir, or for this run only. Nobody's TCP\n"
           "connections within the host are paced, as bbr would, where that is permitted:\n"
           "congestion_control in the report has what everybody had.\n"
           "ucx_tcp is compared with a raw program of UCX (ucx_tcp_vs_raw).\n"
           "shm_vs_memcpy is against the fastest loop by one thread that only copies\n"
           "(memcpy_way), and shm_vs_memcpy_by_two against the fastest by one or two.\n"
           "step_recalls has latencies of recalls as large as a decode step's, and tenants\n"
           "the rates of four tenants of one server that recall at once, over shared memory,\n"
           "UCX and gRPC.\n"
           "scatter_vs_contiguous is scattered units against units in order, of one size\n"
           "and one by one; scatter_vs_large_units is scattered units of 16 KiB against\n"
           "the same transport with units of 128 KiB."},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf({{.title = "Recalls over every transport, raw programs and other stores",
                           .value_title = "GB/s, by the size of a unit",
                           .bars = {{.figures = R"(/(?!shm_in_place)(\w+)_(16k|128k)_gb_per_s)",
                                     .name = "$2",
                                     .place = "$1"}}}})});
  command
      .add_option("--document-bytes", options->compare.document_bytes,
                  "Units on the server, of which a round moves half; a multiple of 32MiB (four "
                  "times the last level cache when not given, or what memory holds all copies of)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE");
  command
      .add_option("--sets", options->compare.sets,
                  "Times that servers and clients are started anew")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      .add_option("--rounds", options->compare.rounds,
                  "Timed turns of every way in a set, each after one that is not")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--empty-recalls", options->compare.empty_recalls,
                  "Recalls that move nothing, for their round trip")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command
      .add_option("--step-recalls", options->compare.step_recalls,
                  "Recalls of 16, 32 and 64 units of 16 KiB, by everybody, and of each tenant")
      ->check(CLI::Range(10, 10000000))
      ->capture_default_str();
  command
      .add_option("--ways", options->compare.ways,
                  "Only these, by the names of the figures (shm, ucx_tcp, raw_ucx_tcp, contiguous, "
                  "step_recalls, tenants, ...); all when not given")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_option("--rivals-dir", options->rivals_dir,
                     "Python environment for Mooncake Store, kept for the next run");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
