// SPDX-License-Identifier: Apache-2.0
//
// quire sim: large clusters on one machine, metadata only (bench/scale).
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/kit/output/json_output.h"
#include "apps/quire_bench/commands.h"
#include "bench/scale/scale_report.h"

namespace quire::cli {
namespace {

Status RunScale(const scale::ScaleOptions& options, const CommandContext& context) {
  const Json report = scale::ScaleJson(options, scale::MeasureScale(options));
  if (context.options.json) {
    PrintJsonLine(context.out, report);
  } else {
    scale::ScaleTable(report).Print(context.out);
  }
  return OkStatus();
}

void AddSizes(CLI::App& command, scale::ScaleOptions* options) {
  command.add_option("--nodes", options->nodes, "Of the cluster")
      ->check(CLI::Range(3, 100'000))
      ->capture_default_str();
  command.add_option("--zones", options->zones, "That the nodes lie in")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--replicas", options->replicas, "Of a document")
      ->check(CLI::Range(uint32_t{1}, cluster::kMaxReplicas))
      ->capture_default_str();
  command.add_option("--segments", options->segments, "Without their replicas")
      ->check(CLI::Range(uint64_t{1000}, uint64_t{1} << 50))
      ->capture_default_str();
  command.add_option("--segments-per-document", options->segments_per_document, "Of each document")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--segment-bytes", options->segment_bytes, "Payload (e.g. 32MiB)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
}

void AddSamplesAndRates(CLI::App& command, scale::ScaleOptions* options) {
  command.add_option("--sampled-documents", options->sampled_documents, "Placed one by one")
      ->check(CLI::Range(1000, 1'000'000'000))
      ->capture_default_str();
  command.add_option("--sampled-segments", options->sampled_segments, "Kept to measure memory")
      ->check(CLI::Range(1000, 100'000'000))
      ->capture_default_str();
  command.add_option("--lease-seconds", options->lease_seconds, "Lease of a node")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  command
      .add_option("--registrations-per-second", options->registrations_per_second,
                  "In the whole cluster")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--restarts-per-day", options->restarts_per_day, "Of each node")
      ->check(CLI::Range(0.0, 1e4))
      ->capture_default_str();
}

void AddScale(Commands& commands, CLI::App& parent) {
  const auto options = std::make_shared<scale::ScaleOptions>();
  CLI::App& command = commands.Add(
      {.name = "scale",
       .summary = "Balance, moves, etcd, memory and time of a cluster of a thousand nodes",
       .examples = "  quire sim scale\n"
                   "  quire sim scale --nodes 100 --segments 10000000 --json\n"
                   "Nothing is stored. A sample of the documents is placed, and a sample of the\n"
                   "segments is kept in the structures of a node; figures of the whole cluster\n"
                   "are scaled from them. docs/scale.md says what follows."},
      options, &RunScale, &parent);
  AddSizes(command, options.get());
  AddSamplesAndRates(command, options.get());
}

}  // namespace

void AddSimCommand(Commands& commands) {
  CLI::App& command = commands.AddGroup({.name = "sim",
                                         .summary = "Look at large clusters, metadata only",
                                         .examples = "  quire sim scale --json\n"
                                                     "It has its own help: quire sim scale --help",
                                         .calls_no_server = true});
  AddScale(commands, command);
}

}  // namespace quire::cli
