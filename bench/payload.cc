// SPDX-License-Identifier: Apache-2.0
//
// Payload: reads of scattered units and sequential ingest through the payload store, against a
// minimal io_uring loop on the same file system (store_ssd.h).
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "bench/benchmark.h"
#include "bench/store_ssd.h"
#include "client/cli/data_dir.h"

namespace quire::bench {
namespace {

void AddRow(const std::string& name, const SsdRate& rate, cli::Table* table) {
  table->AddRow({name, cli::FormatRatio(rate.ratio_to_raw), cli::FormatRatio(rate.store_gb_per_s),
                 cli::FormatRatio(rate.raw_gb_per_s), cli::FormatRatio(rate.amplification)});
}

cli::Json ToJson(const SsdRate& rate) {
  return {{"ratio_to_raw", rate.ratio_to_raw},
          {"gb_per_s", rate.store_gb_per_s},
          {"raw_gb_per_s", rate.raw_gb_per_s},
          {"amplification", rate.amplification}};
}

StatusOr<BenchReport> Run(SsdBenchOptions options) {
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.directory));
  options.directory = directory->path();
  QUIRE_ASSIGN_OR_RETURN(const SsdModes modes, FindSsdModes(options));
  QUIRE_ASSIGN_OR_RETURN(const SsdRate small, MeasureSsdReads(options, 16 << 10));
  QUIRE_ASSIGN_OR_RETURN(const SsdRate large, MeasureSsdReads(options, 128 << 10));
  QUIRE_ASSIGN_OR_RETURN(const SsdRate writes, MeasureSsdWrites(options));
  BenchReport report{.json = {{"benchmark", "payload"}},
                     .table = cli::Table({{"WHAT"},
                                          {"RATIO TO RAW", cli::Table::kRight},
                                          {"GB/S", cli::Table::kRight},
                                          {"RAW GB/S", cli::Table::kRight},
                                          {"AMPLIFICATION", cli::Table::kRight}})};
  AddRow("read 16 KiB", small, &report.table);
  AddRow("read 128 KiB", large, &report.table);
  AddRow("ingest", writes, &report.table);
  report.json["read_16k"] = ToJson(small);
  report.json["read_128k"] = ToJson(large);
  report.json["ingest"] = ToJson(writes);
  report.json["engine"] = modes.engine;
  report.json["mode"] = modes.mode;
  report.json["depth"] = options.depth;
  report.json["batch_units"] = options.batch_units;
  report.json["dataset_bytes"] = options.dataset_bytes;
  report.json["read_bytes"] = options.read_bytes;
  report.json["put_bytes"] = options.put_bytes;
  report.json["rounds"] = options.rounds;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddPayloadBench(Benches& benches) {
  const auto options = std::make_shared<SsdBenchOptions>();
  CLI::App& command =
      benches.Add({.name = "payload",
                   .summary = "Unit reads and ingest on SSD against a raw io_uring loop",
                   .examples = "  quire bench payload --json\n"
                               "  quire bench payload --data-dir /mnt/ssd --dataset-mib 8192"},
                  [options](const cli::CommandContext&) { return Run(*options); });
  command
      .add_option_function<uint64_t>(
          "--dataset-mib", [options](const uint64_t& mib) { options->dataset_bytes = mib << 20; },
          "Dataset in MiB (2048 when not given)")
      ->check(CLI::Range(64, 1 << 20));
  command
      .add_option_function<uint64_t>(
          "--read-mib", [options](const uint64_t& mib) { options->read_bytes = mib << 20; },
          "MiB read in a round (512 when not given)")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--depth", options->depth, "Requests in flight")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--batch", options->batch_units, "Units read by one call")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--rounds", options->rounds, "Rounds; both take part in each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->directory);
}

}  // namespace quire::bench
