// SPDX-License-Identifier: Apache-2.0
//
// Transport: scattered units from a server's DRAM into a client's slots, over shared memory, UCX
// and gRPC, beside what the wire gives a minimal program and beside Redis and Mooncake Store, all
// in turns in one run. The document is many times larger than the last level cache. Ours go the
// whole way: a session plans the recall, parts stream, every unit's checksum is verified.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.h"
#include "bench/session_plan.h"
#include "bench/transport/comparison.h"
#include "bench/transport/raw_grpc.h"
#include "bench/transport/request_encoding.h"
#include "client/cli/data_dir.h"
#include "common/base/stop_signals.h"

namespace quire::bench {
namespace {

constexpr uint32_t kPureRounds = 201;
const char* const kTransports[] = {"shm", "ucx_cma", "ucx_tcp", "grpc"};

std::string SizeOf(const TransportFigures& figures) {
  return std::to_string(figures.unit_bytes >> 10) + "k";
}

/// The worst of both sizes, then each.
void AddRatio(const std::vector<TransportFigures>& sizes, const std::string& key, cli::Json* json) {
  double worst = 0;
  bool any = false;
  for (const TransportFigures& size : sizes) {
    const auto ratio = size.ratios.find(key);
    if (ratio == size.ratios.end()) continue;
    worst = any ? std::min(worst, ratio->second) : ratio->second;
    any = true;
  }
  if (!any) return;
  (*json)[key] = worst;
  for (const TransportFigures& size : sizes) {
    const auto ratio = size.ratios.find(key);
    if (ratio != size.ratios.end()) (*json)[key + "_" + SizeOf(size)] = ratio->second;
  }
}

void AddRatios(const std::vector<TransportFigures>& sizes, cli::Json* json) {
  for (const char* const key :
       {"shm_vs_memcpy", "ucx_cma_vs_raw", "ucx_tcp_vs_raw", "grpc_vs_raw_stream", "shm_vs_redis",
        "ucx_tcp_vs_redis", "ucx_tcp_vs_mooncake"}) {
    AddRatio(sizes, key, json);
  }
  std::optional<double> worst;
  for (const std::string transport : kTransports) {
    const std::string key = "scatter_vs_contiguous_" + transport;
    AddRatio(sizes, key, json);
    if (!json->contains(key)) continue;
    const double ratio = (*json)[key].get<double>();
    worst = std::min(worst.value_or(ratio), ratio);
  }
  if (worst) (*json)["scatter_vs_contiguous"] = *worst;
}

void AddFigures(const std::vector<TransportFigures>& sizes, cli::Json* json) {
  for (const TransportFigures& size : sizes) {
    const std::string of_size = "_" + SizeOf(size);
    for (const auto& [name, speed] : size.gb_per_s) {
      (*json)[name + of_size + "_gb_per_s"] = speed;
    }
    for (const auto& [name, micros] : size.empty_recall_us) {
      (*json)["empty_recall_" + name + of_size + "_p50_us"] = micros.first;
      (*json)["empty_recall_" + name + of_size + "_p99_us"] = micros.second;
    }
    for (const auto& [name, why] : size.absent) (*json)["absent"][name] = why;
    for (const auto& [name, detail] : size.details) (*json)["details"][name] = detail;
  }
}

cli::Table TableOf(const std::vector<TransportFigures>& sizes) {
  cli::Table table({{"UNITS"}, {"WAY"}, {"GB/S", cli::Table::kRight}});
  for (const TransportFigures& size : sizes) {
    for (const auto& [name, speed] : size.gb_per_s) {
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

StatusOr<BenchReport> Run(const Options& options) {
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
  const RequestEncoding encoding = MeasureRequestEncoding(kPureRounds);
  QUIRE_ASSIGN_OR_RETURN(const SessionPlanFigures plan, MeasureSessionPlan(kPureRounds));
  BenchReport report{.json = {{"benchmark", "transport"}}, .table = TableOf(sizes)};
  AddRatios(sizes, &report.json);
  if (const auto units = sizes.front().shm_zero_copy_units_per_s) {
    report.json["shm_zero_copy_units_per_s"] = *units;
  }
  report.json["encode_us_per_10k_units"] = encoding.us_per_10k_units;
  report.json["request_bytes_per_unit"] = encoding.bytes_per_unit;
  // The worst case, every slot replaced; and what a decode step is like, a tenth missing.
  report.json["plan_us_per_10k_units"] = plan.plan_all_us_per_10k_units;
  report.json["plan_step_us_per_10k_units"] = plan.plan_us_per_10k_units;
  AddFigures(sizes, &report.json);
  report.json["document_bytes"] = options.compare.document_bytes;
  report.json["rounds"] = options.compare.rounds;
  report.json["empty_recalls"] = options.compare.empty_recalls;
  report.json["machine"] = Machine();
  return report;
}

/// The raw gRPC program's server, in a process of its own.
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
  command.group("");  // Not in the help.
  command.add_option("--unit-bytes", peer->shape.unit_bytes)->required();
  command.add_option("--units", peer->shape.num_units)->required();
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
       .examples = "  quire bench transport --json\n"
                   "  quire bench transport --rounds 3 --document-bytes 256MiB\n"
                   "Redis is started when redis-server is installed; Mooncake Store is installed\n"
                   "from PyPI into --rivals-dir, or for this run only."},
      [options](const cli::CommandContext&) { return Run(*options); });
  command
      .add_option("--document-bytes", options->compare.document_bytes,
                  "Units on the server; a round moves half of them")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--rounds", options->compare.rounds,
                  "Timed turns of every way, each after one that is not")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--empty-recalls", options->compare.empty_recalls,
                  "Recalls that move nothing, for their round trip")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command
      .add_option("--ways", options->compare.ways,
                  "Only these, by the names of the figures (shm, ucx_tcp, raw_ucx_tcp, contiguous, "
                  "...); all when not given")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_option("--rivals-dir", options->rivals_dir,
                     "Python environment for Mooncake Store, kept for the next run");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
