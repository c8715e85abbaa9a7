// SPDX-License-Identifier: Apache-2.0
//
// quire bench: runs one of the benchmarks (benchmark.h).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "client/cli/benchmark.h"
#include "client/cli/commands.h"

namespace quire::cli {
namespace {

struct BenchArgs {
  std::string name;
  BenchOptions options;
};

Status RunBench(const BenchArgs& args, const CommandContext& context) {
  const auto benchmarks = Benchmarks();
  const auto found = std::ranges::find(benchmarks, args.name, &Benchmark::name);
  QUIRE_ASSIGN_OR_RETURN(const BenchReport report, found->run(args.options));
  if (context.options.json) {
    PrintJsonLine(context.out, report.json);
  } else {
    report.table.Print(context.out);
  }
  return OkStatus();
}

}  // namespace

void AddBenchCommand(Commands& commands) {
  const auto args = std::make_shared<BenchArgs>();
  std::vector<std::string> names;
  std::string list;
  for (const Benchmark& benchmark : Benchmarks()) {
    names.push_back(benchmark.name);
    list += "  " + benchmark.name + "\t" + benchmark.summary + "\n";
  }
  CLI::App& command =
      commands.Add({.name = "bench",
                    .summary = "Measure against the machine's limits, on an embedded server",
                    .examples = "  quire bench recall\n"
                                "  quire bench recall --steps 256 --json\n"
                                "  quire bench decode --model DIR\n"
                                "Benchmarks:\n" +
                                list},
                   [args](const CommandContext& context) { return RunBench(*args, context); });
  command.add_option("NAME", args->name, "Which one")->required()->check(CLI::IsMember(names));
  command.add_option("--steps", args->options.steps, "Decoding steps measured")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--model", args->options.model,
                     "Directory of the model (the bundled one when not given)");
  command.add_option(
      "--data-dir", args->options.data_dir,
      "Where the embedded server keeps its data (a temporary directory when not given)");
}

}  // namespace quire::cli
