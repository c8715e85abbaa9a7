// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/scatter_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string_view>

namespace quire::cli {
namespace {

constexpr int kWidth = 860, kHeight = 520;
constexpr int kLeft = 70, kRight = 660, kTop = 50, kBottom = 460;  ///< The axes' rectangle.
constexpr int kLegendLeft = 680, kLegendStep = 20;
constexpr double kTickCount = 5;
// Distinct for people who do not distinguish red from green.
constexpr const char* kColours[] = {"#4477aa", "#ee6677", "#228833", "#aa8800",
                                    "#0099bb", "#aa3377", "#777777", "#cc5500",
                                    "#332288", "#117733", "#882255", "#999933"};

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

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
      : plot_(plot), x_ticks_(AxisTicks(Corner(plot).x)), y_ticks_(AxisTicks(Corner(plot).y)) {}

  std::string Draw() {
    svg_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << " " << kHeight
         << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"" << kWidth
         << "\" height=\"" << kHeight << "\" fill=\"white\"/>\n";
    Text((kLeft + kRight) / 2, kTop - 20, "middle", plot_.title, " font-size=\"15\"");
    DrawAxes();
    for (const PlotLevel& level : plot_.levels) {
      DrawStroke(kLeft, Y(level.y), kRight, Y(level.y), "#333333\" stroke-dasharray=\"6 4");
      Text(kLeft + 6, Y(level.y) - 5, "start", level.name);
    }
    for (size_t i = 0; i < plot_.lines.size(); ++i) DrawLine(i);
    svg_ << "</svg>\n";
    return svg_.str();
  }

 private:
  int X(double x) const {
    return kLeft + static_cast<int>(std::lround(x / x_ticks_.back() * (kRight - kLeft)));
  }
  int Y(double y) const {
    return kBottom - static_cast<int>(std::lround(y / y_ticks_.back() * (kBottom - kTop)));
  }
  void Text(int x, int y, const char* anchor, const std::string& text, const char* more = "") {
    svg_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\"" << more
         << ">" << Escape(text) << "</text>\n";
  }
  void DrawStroke(int x1, int y1, int x2, int y2, const char* colour) {
    svg_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
         << "\" stroke=\"" << colour << "\"/>\n";
  }
  void DrawAxes() {
    for (const double tick : x_ticks_) {
      DrawStroke(X(tick), kTop, X(tick), kBottom, "#dddddd");
      Text(X(tick), kBottom + 18, "middle", Number(tick));
    }
    for (const double tick : y_ticks_) {
      DrawStroke(kLeft, Y(tick), kRight, Y(tick), "#dddddd");
      Text(kLeft - 8, Y(tick) + 4, "end", Number(tick));
    }
    Text((kLeft + kRight) / 2, kBottom + 42, "middle", plot_.x_title);
    const std::string turned =
        " transform=\"rotate(-90 20 " + std::to_string((kTop + kBottom) / 2) + ")\"";
    Text(20, (kTop + kBottom) / 2, "middle", plot_.y_title, turned.c_str());
  }
  void DrawLine(size_t index) {
    const PlotLine& line = plot_.lines[index];
    const char* const colour = kColours[index % std::size(kColours)];
    svg_ << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\" points=\"";
    for (const PlotPoint& point : line.points) svg_ << X(point.x) << "," << Y(point.y) << " ";
    svg_ << "\"/>\n";
    for (const PlotPoint& point : line.points) {
      if (!line.marked) break;
      svg_ << "<circle cx=\"" << X(point.x) << "\" cy=\"" << Y(point.y) << "\" r=\"4\" fill=\""
           << colour << "\"><title>" << Escape(line.name + " " + point.label)
           << "</title></circle>\n";
    }
    const int y = kTop + static_cast<int>(index) * kLegendStep;
    svg_ << "<circle cx=\"" << kLegendLeft << "\" cy=\"" << y << "\" r=\"4\" fill=\"" << colour
         << "\"/>\n";
    Text(kLegendLeft + 12, y + 4, "start", line.name);
  }

  const ScatterPlot& plot_;
  const std::vector<double> x_ticks_;
  const std::vector<double> y_ticks_;
  std::ostringstream svg_;
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
      if (Row(tick) == row) label = Number(tick);
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
