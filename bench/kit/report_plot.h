// SPDX-License-Identifier: Apache-2.0
//
// Plots of reports: a benchmark declares which figures of its report are a series, and these are
// drawn alike, from a report of now or an earlier one. Pure functions.
//
// Figures are named by a regular expression over JSON pointers of numbers. Names and positions are
// templates: "$1" is what the first parentheses matched, and "{/sizes/$1/nodes}" is what stands
// there in the report.
#ifndef QUIRE_BENCH_KIT_REPORT_PLOT_H_
#define QUIRE_BENCH_KIT_REPORT_PLOT_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/kit/output/bar_plot.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/scatter_plot.h"
#include "quire/status.h"

namespace quire::bench {

using Plot = std::variant<cli::ScatterPlot, cli::BarPlot>;
/// Makes the plot of a report. INVALID_ARGUMENT for one without a series.
using Plotter = std::function<StatusOr<Plot>(const cli::Json& report)>;

/// Numbers of a report that belong together.
struct FigureSeries {
  std::string figures;     ///< Regular expression over whole JSON pointers.
  std::string name = {};   ///< Template: of the line, or the bars of one colour.
  std::string place = {};  ///< Template: a number to the right, or the name of a group of bars.
  double times = 1;        ///< Factor of the figures.
  double place_times = 1;  ///< Factor of places that are numbers.
  /// Two templates that must be equal for a figure to count; empty: all count.
  std::pair<std::string, std::string> where = {};
};

struct FigurePlot {
  std::string title;  ///< Template without "$".
  std::string place_title = {};
  std::string value_title;
  std::vector<FigureSeries> lines = {};   ///< Points joined by lines.
  std::vector<FigureSeries> bars = {};    ///< Bars; a plot has lines or bars.
  std::vector<FigureSeries> levels = {};  ///< Lines for comparison, beside `lines`.
};

/// Nullopt for a report without any of its figures. Figures whose places are missing are left out.
std::optional<Plot> MakePlot(const FigurePlot& plot, const cli::Json& report);

/// Draws the first of `plots` that a report has figures of.
Plotter PlotterOf(std::vector<FigurePlot> plots);

std::string ToSvg(const Plot& plot);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_REPORT_PLOT_H_
