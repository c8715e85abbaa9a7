// SPDX-License-Identifier: Apache-2.0
//
// SvgDrawing: an SVG document in the one style of all plots. Colours follow the reader's, light or
// dark, and are light in print. Series differ by colour and by the shape of their marks, so that
// they can be told apart in grey. Coordinates are pixels from the upper left. Thread-safety: none.
#ifndef QUIRE_APPS_KIT_OUTPUT_SVG_DRAWING_H_
#define QUIRE_APPS_KIT_OUTPUT_SVG_DRAWING_H_

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace quire::cli {

class SvgDrawing {
 public:
  static constexpr int kWidth = 860;

  SvgDrawing(int height, const std::string& title);

  /// `anchor` is "start", "middle" or "end"; `more` are attributes.
  void Text(int x, int y, const char* anchor, const std::string& text,
            const std::string& more = {});
  /// A line of the grid.
  void GridLine(int x1, int y1, int x2, int y2);
  /// A dashed line for comparison.
  void LevelLine(int x1, int y1, int x2, int y2);
  /// A line of series `index` through points.
  void Polyline(size_t index, const std::vector<std::pair<int, int>>& points);
  /// A mark of a series. `label` shows while the mouse points at it; may be empty.
  void Mark(size_t index, int x, int y, const std::string& label = {});
  void Bar(size_t index, int x, int y, int width, int height, const std::string& label);
  std::string Finish();

 private:
  std::ostringstream svg_;
};

/// A number on an axis or at a bar: six digits at most.
std::string NumberText(double value);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_SVG_DRAWING_H_
