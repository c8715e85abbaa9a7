// SPDX-License-Identifier: Apache-2.0
#include "bench/benchmark.h"

#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace quire::bench {

CLI::App& Benches::Add(const cli::Commands::Spec& spec,
                       std::function<StatusOr<BenchReport>(const cli::CommandContext&)> run) {
  return commands.Add(
      spec,
      [run = std::move(run)](const cli::CommandContext& context) {
        QUIRE_ASSIGN_OR_RETURN(const BenchReport report, run(context));
        if (context.options.json) {
          cli::PrintJsonLine(context.out, report.json);
        } else {
          report.table.Print(context.out);
        }
        return OkStatus();
      },
      &parent);
}

cli::Json Machine() {
  std::string processor = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    processor = line.substr(std::min(line.size(), line.find(':') + 2));
    break;
  }
  return {{"processor", processor}, {"cpus", std::thread::hardware_concurrency()}};
}

}  // namespace quire::bench
