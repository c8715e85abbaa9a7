// SPDX-License-Identifier: Apache-2.0
//
// Engines: time to the first token in vLLM, alone and with the stores of others and of Quire. The
// engines are Python, and so is the measurement (engines_bench.py); this starts it and reads its
// report.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/json_output.h"
#include "bench/benchmark.h"
#include "bench/transport/process.h"

namespace quire::bench {
namespace {

constexpr auto kEnginesTime = std::chrono::minutes(30);
constexpr auto kEndTime = std::chrono::minutes(1);

struct EnginesOptions {
  uint32_t prompts = 8;
  std::vector<std::string> only;
  std::string tree = ".";
  std::string data_dir;
};

StatusOr<std::vector<std::string>> EnginesCommand(const EnginesOptions& options) {
  const std::filesystem::path script =
      std::filesystem::path(options.tree) / "bench/engines/engines_bench.py";
  if (!std::filesystem::exists(script)) {
    return NotFound("no ", script.string(), ": run it in Quire's source tree, or give --tree");
  }
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return Unavailable("cannot read /proc/self/exe: ", failed.message());
  std::vector<std::string> command = {
      "/usr/bin/python3", script.string(),
      "--build",          program.parent_path().parent_path().string(),
      "--prompts",        std::to_string(options.prompts)};
  for (const std::string& way : options.only) {
    command.insert(command.end(), {"--only", way});
  }
  return command;
}

/// Output of the script: lines that say how far it is, and at last its figures.
class EnginesOutput {
 public:
  /// Shows new lines on standard error. Returns true once the figures are there.
  bool Follow(const std::string& output) {
    for (size_t end; (end = output.find('\n', shown_)) != std::string::npos; shown_ = end + 1) {
      const std::string line = output.substr(shown_, end - shown_);
      if (line.starts_with('{')) {
        figures_ = line;
      } else {
        std::cerr << line << std::endl;
      }
    }
    return !figures_.empty();
  }

  StatusOr<cli::Json> Figures() const {
    const auto json = cli::Json::parse(figures_, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("ways")) return json;
    return Internal("engines_bench.py printed no figures: ", figures_.substr(0, 500));
  }

 private:
  size_t shown_ = 0;
  std::string figures_;
};

cli::Table EnginesTable(const cli::Json& json) {
  cli::Table table({{"WAY"},
                    {"MISS MS", cli::Table::kRight},
                    {"HIT MS", cli::Table::kRight},
                    {"VLLM ALONE MS", cli::Table::kRight},
                    {"HITS PER S", cli::Table::kRight},
                    {"TOKENS FOUND", cli::Table::kRight},
                    {"AFTER SIGKILL %", cli::Table::kRight}});
  const auto rounded = [](double value) { return std::to_string(std::lround(value)); };
  for (const auto& [name, way] : json["ways"].items()) {
    table.AddRow({name, rounded(way["ttft_miss_ms"]), rounded(way["ttft_hit_ms"]),
                  rounded(way["vllm_alone_ms"]), rounded(way["hits_per_s"]),
                  rounded(way["hit_tokens"]), rounded(100 * way["recovered"].get<double>())});
  }
  for (const auto& [name, why] : json["absent"].items()) {
    table.AddRow({name, "absent", "", "", "", "", why.get<std::string>().substr(0, 60)});
  }
  return table;
}

StatusOr<BenchReport> RunEngines(const EnginesOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto command, EnginesCommand(options));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto process,
                         Process::Start(command, directory->path() + "/engines.log"));
  EnginesOutput output;
  const auto follow = [&] { return output.Follow(process->Output()); };
  const Status followed = process->WaitUntil(follow, kEnginesTime);
  if (!follow()) return followed;  // It may have ended right after its figures.
  QUIRE_RETURN_IF_ERROR(process->WaitForEnd(kEndTime));
  cli::Json json = {{"benchmark", "engines"}};
  QUIRE_ASSIGN_OR_RETURN(const cli::Json figures, output.Figures());
  json.update(figures);
  json["machine"] = Machine();
  cli::Table table = EnginesTable(json);
  return BenchReport{.json = std::move(json), .table = std::move(table)};
}

}  // namespace

void AddEnginesBench(Benches& benches) {
  const auto options = std::make_shared<EnginesOptions>();
  CLI::App& command = benches.Add(
      {.name = "engines",
       .summary = "Time to the first token in vLLM, with Quire and with the stores of others",
       .examples =
           "  quire bench engines --json\n"
           "  quire bench engines --prompts 4 --only quire_shm --only lmcache_files\n"
           "Needs the engines of ./dev test engines, and some five minutes. Standard error\n"
           "says how far it is. The way example is vLLM's own."},
      [options](const cli::CommandContext&) { return RunEngines(*options); },
      {.plot = PlotterOf(
           {{.title = "Time to the first token in vLLM",
             .value_title = "ms, by what is stored of the prompt",
             .bars = {
                 {.figures = "/ways/([^/]+)/ttft_(hit|miss)_ms", .name = "$2", .place = "$1"}}}})});
  command
      .add_option("--prompts", options->prompts,
                  "Questions that come one by one, each over a document of its own of some "
                  "4200 tokens; as many others come at the same time")
      ->check(CLI::Range(1, 12))
      ->capture_default_str();
  command.add_option("--only", options->only, "A way to run; all when not given")
      ->take_all()
      ->check(CLI::IsMember(std::vector<std::string>{"example", "lmcache_files", "mooncake_tcp",
                                                     "lmcache_quire", "quire_shm", "quire_ucx_tcp",
                                                     "quire_grpc"}));
  command.add_option("--tree", options->tree, "Quire's source tree")->capture_default_str();
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
