// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/report_views.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "apps/kit/read_file.h"

namespace quire::bench {

void AddViewOptions(CLI::App& command, ViewOptions* options) {
  command.add_option("--plot", options->plot, "File for a plot of the report's series (SVG)");
  command.add_option("--from", options->from,
                     "Report of an earlier run (JSON): its plot is made anew, and nothing runs");
}

cli::Commands::Spec WithViewExample(cli::Commands::Spec spec, const std::string& words) {
  const std::string example = "\n  quire " + words + " --from " + spec.name + ".json --plot " +
                              spec.name + ".svg   of an earlier run";
  spec.examples.insert(std::min(spec.examples.find('\n'), spec.examples.size()), example);
  return spec;
}

Status CheckViews(const ViewOptions& options) {
  return options.from.empty() ? WriteFile(options.plot, "") : OkStatus();
}

Status CheckDraws(const ViewOptions& options) {
  if (options.from.empty() || !options.plot.empty()) return OkStatus();
  return InvalidArgument("--from makes an earlier report's plot; say where with --plot FILE.svg");
}

StatusOr<cli::Json> ReadReport(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, cli::ReadTextFile(path));
  cli::Json report = cli::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (report.is_object()) return report;
  return InvalidArgument(path, " is no JSON object; give what an earlier --json printed");
}

Status WritePlot(const ViewOptions& options, const Plotter& plotter, const cli::Json& report) {
  if (options.plot.empty()) return OkStatus();
  const StatusOr<Plot> plot = plotter(report);
  if (!plot.ok()) return Annotate(plot.status(), "no plot");
  return WriteFile(options.plot, ToSvg(*plot));
}

Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return OkStatus();
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return OkStatus();
  return InvalidArgument("cannot write ", path,
                         "; name a file in a directory that exists and can be written to");
}

}  // namespace quire::bench
