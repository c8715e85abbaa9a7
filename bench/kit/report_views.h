// SPDX-License-Identifier: Apache-2.0
//
// Options of commands for what else is made of a report: a plot, also of an earlier run's.
#ifndef QUIRE_BENCH_KIT_REPORT_VIEWS_H_
#define QUIRE_BENCH_KIT_REPORT_VIEWS_H_

#include <string>

#include "apps/kit/command.h"
#include "apps/kit/output/json_output.h"
#include "bench/kit/report_plot.h"
#include "quire/status.h"

namespace quire::bench {

struct ViewOptions {
  std::string plot;  ///< File to write; empty: none.
  std::string from;  ///< Earlier report, in place of a run; empty: none.
};

/// Adds --plot and --from.
void AddViewOptions(CLI::App& command, ViewOptions* options);

/// `spec` with an example of them after its first. `words` are the command's, as "bench store".
cli::Commands::Spec WithViewExample(cli::Commands::Spec spec, const std::string& words);

/// Before a run: a file that cannot be written is an error before anything is measured.
[[nodiscard]] Status CheckViews(const ViewOptions& options);

/// INVALID_ARGUMENT for an earlier report of which nothing is to be made.
[[nodiscard]] Status CheckDraws(const ViewOptions& options);

/// The report in a file of an earlier run. INVALID_ARGUMENT when it is none.
[[nodiscard]] StatusOr<cli::Json> ReadReport(const std::string& path);

/// Writes the plot, if one is asked for.
[[nodiscard]] Status WritePlot(const ViewOptions& options, const Plotter& plotter,
                               const cli::Json& report);

/// Writes a file of a report. OK without a path. INVALID_ARGUMENT says what to name.
[[nodiscard]] Status WriteFile(const std::string& path, const std::string& text);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_REPORT_VIEWS_H_
