// SPDX-License-Identifier: Apache-2.0
#include "bench/benchmark.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace quire::bench {
namespace {

/// An earlier report of the benchmark `name`, as it was or made anew.
StatusOr<BenchReport> ShowEarlier(const ViewOptions& options, const std::string& name,
                                  const ReportViews& views) {
  QUIRE_ASSIGN_OR_RETURN(cli::Json report, ReadReport(options.from));
  if (!report.contains("benchmark") || report["benchmark"] != name) {
    return InvalidArgument(options.from, " is no report of quire bench ", name);
  }
  if (views.show != nullptr) {
    auto shown = views.show(std::move(report));
    if (!shown.ok()) return Annotate(shown.status(), options.from);
    return shown;
  }
  QUIRE_RETURN_IF_ERROR(CheckDraws(options));
  cli::Table table({{"PLOT"}});
  table.AddRow({options.plot});
  return BenchReport{.json = std::move(report), .table = std::move(table)};
}

}  // namespace

CLI::App& Benches::Add(const cli::Commands::Spec& spec,
                       std::function<StatusOr<BenchReport>(const cli::CommandContext&)> run,
                       ReportViews views) {
  const auto options = std::make_shared<ViewOptions>();
  const bool has_plot = views.plot != nullptr;
  CLI::App& command = commands.Add(
      has_plot ? WithViewExample(spec, "bench " + spec.name) : spec,
      [run = std::move(run), views = std::move(views), options,
       name = spec.name](const cli::CommandContext& context) {
        QUIRE_RETURN_IF_ERROR(CheckViews(*options));
        QUIRE_ASSIGN_OR_RETURN(const BenchReport report, options->from.empty()
                                                             ? run(context)
                                                             : ShowEarlier(*options, name, views));
        QUIRE_RETURN_IF_ERROR(WritePlot(*options, views.plot, report.json));
        if (context.options.json) {
          cli::PrintJsonLine(context.out, report.json);
        } else {
          report.table.Print(context.out);
        }
        return OkStatus();
      },
      &parent);
  if (has_plot) AddViewOptions(command, options.get());
  return command;
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
