// SPDX-License-Identifier: Apache-2.0
//
// ScatterPlot: points joined to lines, in two dimensions, as an SVG file. It has linear axes with
// ticks, a legend, and dashed level lines. Pure functions.
#ifndef QUIRE_BENCH_ANSWERS_SCATTER_PLOT_H_
#define QUIRE_BENCH_ANSWERS_SCATTER_PLOT_H_

#include <string>
#include <vector>

namespace quire::bench {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string label = {};  ///< Shown while the mouse points at it.
};

/// Points joined in their order, in a separate colour.
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
};

/// A dashed horizontal line for comparison.
struct PlotLevel {
  std::string name;
  double y = 0;
};

struct ScatterPlot {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<PlotLine> lines = {};
  std::vector<PlotLevel> levels = {};
};

/// Tick values for an axis from 0 to `highest` or slightly more. They are 1, 2 or 5 times a power
/// of ten apart, about five of them.
std::vector<double> AxisTicks(double highest);

/// Makes the SVG document. Axes begin at 0.
std::string ToSvg(const ScatterPlot& plot);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_SCATTER_PLOT_H_
