// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/scatter_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "apps/kit/output/svg_drawing.h"

namespace quire::cli {
namespace {

constexpr int kHeight = 520;
constexpr int kLeft = 70, kRight = 660, kTop = 50, kBottom = 460;  ///< The axes' rectangle.
constexpr int kLegendLeft = 680, kLegendStep = 20, kLevelStep = 140;
constexpr double kTickCount = 5;

/// The largest coordinates of all points and levels, at least 0.
PlotPoint Corner(const ScatterPlot& plot) {
  PlotPoint corner;
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& point : line.points) {
      corner.x = std::max(corner.x, point.x);
      corner.y = std::max(corner.y, point.y);
    }
  }
  for (const PlotLevel& level : plot.levels) corner.y = std::max(corner.y, level.y);
  return corner;
}

class Drawing {
 public:
  explicit Drawing(const ScatterPlot& plot)
      : plot_(plot),
        x_ticks_(AxisTicks(Corner(plot).x)),
        y_ticks_(AxisTicks(Corner(plot).y)),
        svg_(kHeight, plot.title) {}

  std::string Draw() {
    DrawAxes();
    int x = kLeft + 6;
    for (const PlotLevel& level : plot_.levels) {
      svg_.LevelLine(kLeft, Y(level.y), kRight, Y(level.y));
      svg_.Text(x, Y(level.y) - 5, "start", level.name);
      x += kLevelStep;  // Names of levels that are close do not cover each other.
    }
    for (size_t i = 0; i < plot_.lines.size(); ++i) DrawLine(i);
    return svg_.Finish();
  }

 private:
  int X(double x) const {
    return kLeft + static_cast<int>(std::lround(x / x_ticks_.back() * (kRight - kLeft)));
  }
  int Y(double y) const {
    return kBottom - static_cast<int>(std::lround(y / y_ticks_.back() * (kBottom - kTop)));
  }
  void DrawAxes() {
    for (const double tick : x_ticks_) {
      svg_.GridLine(X(tick), kTop, X(tick), kBottom);
      svg_.Text(X(tick), kBottom + 18, "middle", NumberText(tick));
    }
    for (const double tick : y_ticks_) {
      svg_.GridLine(kLeft, Y(tick), kRight, Y(tick));
      svg_.Text(kLeft - 8, Y(tick) + 4, "end", NumberText(tick));
    }
    svg_.Text((kLeft + kRight) / 2, kBottom + 42, "middle", plot_.x_title);
    svg_.Text(20, (kTop + kBottom) / 2, "middle", plot_.y_title,
              " transform=\"rotate(-90 20 " + std::to_string((kTop + kBottom) / 2) + ")\"");
  }
  void DrawLine(size_t index) {
    const PlotLine& line = plot_.lines[index];
    std::vector<std::pair<int, int>> points;
    for (const PlotPoint& point : line.points) points.emplace_back(X(point.x), Y(point.y));
    svg_.Polyline(index, points);
    for (const PlotPoint& point : line.points) {
      if (!line.marked) break;
      svg_.Mark(index, X(point.x), Y(point.y), line.name + " " + point.label);
    }
    const int y = kTop + static_cast<int>(index) * kLegendStep;
    svg_.Mark(index, kLegendLeft, y);
    svg_.Text(kLegendLeft + 12, y + 4, "start", line.name);
  }

  const ScatterPlot& plot_;
  const std::vector<double> x_ticks_;
  const std::vector<double> y_ticks_;
  SvgDrawing svg_;
};

/// Rows of characters that lines are drawn in.
class TextDrawing {
 public:
  TextDrawing(const ScatterPlot& plot, size_t width, size_t height)
      : plot_(plot),
        x_ticks_(AxisTicks(Corner(plot).x)),
        y_ticks_(AxisTicks(Corner(plot).y)),
        rows_(std::max<size_t>(height, 4), std::string(std::max<size_t>(width, 8), ' ')) {}

  std::string Draw() {
    for (size_t i = plot_.lines.size(); i-- > 0;) DrawLine(plot_.lines[i], Mark(i));
    std::string text = plot_.y_title + "\n";
    for (size_t row = 0; row < rows_.size(); ++row) text += RowText(row);
    text += std::string(kLabel, ' ') + "+" + std::string(rows_.front().size(), '-') + "\n";
    text += ColumnLabels();
    for (size_t i = 0; i < plot_.lines.size(); ++i) {
      text += std::string(kLabel + 1, ' ') + Mark(i) + " " + plot_.lines[i].name + "\n";
    }
    return text;
  }

 private:
  static constexpr size_t kLabel = 8;  ///< Width of the labels before the axis.

  static char Mark(size_t line) {
    static constexpr std::string_view kMarks = "#.ox+*";
    return kMarks[line % kMarks.size()];
  }
  size_t Column(double x) const {
    const auto last = static_cast<double>(rows_.front().size() - 1);
    return static_cast<size_t>(std::lround(x / x_ticks_.back() * last));
  }
  size_t Row(double y) const {
    const auto last = static_cast<double>(rows_.size() - 1);
    return static_cast<size_t>(std::lround((1 - y / y_ticks_.back()) * last));
  }
  void DrawLine(const PlotLine& line, char mark) {
    for (size_t i = 0; i < line.points.size(); ++i) {
      const PlotPoint& from = line.points[i > 0 ? i - 1 : 0];
      const PlotPoint& to = line.points[i];
      const size_t steps = 2 * (rows_.size() + rows_.front().size());
      for (size_t step = 0; step <= steps; ++step) {
        const double share = static_cast<double>(step) / static_cast<double>(steps);
        const double x = from.x + share * (to.x - from.x);
        const double y = from.y + share * (to.y - from.y);
        rows_[Row(y)][Column(x)] = mark;
      }
    }
  }
  std::string RowText(size_t row) const {
    std::string label;
    for (const double tick : y_ticks_) {
      if (Row(tick) == row) label = NumberText(tick);
    }
    return Trimmed(std::string(kLabel - 1 - std::min(kLabel - 1, label.size()), ' ') + label +
                   " |" + rows_[row]);
  }
  std::string ColumnLabels() const {
    std::string labels;
    for (const double tick : x_ticks_) {
      char text[32];
      std::snprintf(text, sizeof(text), "%.0f", tick);
      const size_t at = kLabel + 1 + Column(tick);
      if (!labels.empty() && labels.size() >= at) continue;
      labels.resize(at, ' ');
      labels += text;
    }
    return Trimmed(labels + "  " + plot_.x_title);
  }
  static std::string Trimmed(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  const ScatterPlot& plot_;
  const std::vector<double> x_ticks_;
  const std::vector<double> y_ticks_;
  std::vector<std::string> rows_;
};

}  // namespace

std::vector<double> AxisTicks(double highest) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  const double wanted = highest / kTickCount;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double step = 10 * power;
  for (const double times : {1, 2, 5}) {
    if (times * power >= wanted) {
      step = times * power;
      break;
    }
  }
  std::vector<double> ticks = {0};
  for (int i = 1; ticks.back() < highest - 1e-9 * step; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string ToSvg(const ScatterPlot& plot) { return Drawing(plot).Draw(); }

std::string ToText(const ScatterPlot& plot, size_t width, size_t height) {
  return TextDrawing(plot, width, height).Draw();
}

}  // namespace quire::cli
