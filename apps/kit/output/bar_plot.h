// SPDX-License-Identifier: Apache-2.0
//
// BarPlot: groups of horizontal bars, one bar for each series, as an SVG file. Pure functions.
#ifndef QUIRE_APPS_KIT_OUTPUT_BAR_PLOT_H_
#define QUIRE_APPS_KIT_OUTPUT_BAR_PLOT_H_

#include <map>
#include <string>
#include <vector>

namespace quire::cli {

struct BarGroup {
  std::string name;
  std::map<size_t, double> values;  ///< By index of the series, 0 or more; may lack some.
};

struct BarPlot {
  std::string title;
  std::string value_title;
  std::vector<std::string> series = {};  ///< One series needs no name.
  std::vector<BarGroup> groups = {};
};

/// Makes the SVG document. The axis begins at 0.
std::string ToSvg(const BarPlot& plot);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_BAR_PLOT_H_
