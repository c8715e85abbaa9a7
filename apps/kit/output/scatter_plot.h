// SPDX-License-Identifier: Apache-2.0
//
// ScatterPlot: points joined to lines, in two dimensions, as an SVG file or as lines of text. It
// has linear axes with ticks, a legend, and dashed level lines. Pure functions.
#ifndef QUIRE_APPS_KIT_OUTPUT_SCATTER_PLOT_H_
#define QUIRE_APPS_KIT_OUTPUT_SCATTER_PLOT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace quire::cli {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string label = {};  ///< Shown while the mouse points at it.
};

/// Points joined in their order, in a separate colour.
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
  bool marked = true;  ///< Has a circle at every point.
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

/// Draws with characters for a terminal, on `width` columns and `height` rows besides the axes, 8
/// and 4 or more. Each line has a character of its own; earlier lines cover later ones. Levels are
/// left out.
std::string ToText(const ScatterPlot& plot, size_t width, size_t height);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_SCATTER_PLOT_H_
