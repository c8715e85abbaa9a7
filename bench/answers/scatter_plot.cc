// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/scatter_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace quire::bench {
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

class Drawing {
 public:
  explicit Drawing(const ScatterPlot& plot) : plot_(plot) {
    double highest_x = 0, highest_y = 0;
    for (const PlotLine& line : plot.lines) {
      for (const PlotPoint& point : line.points) {
        highest_x = std::max(highest_x, point.x);
        highest_y = std::max(highest_y, point.y);
      }
    }
    for (const PlotLevel& level : plot.levels) highest_y = std::max(highest_y, level.y);
    x_ticks_ = AxisTicks(highest_x);
    y_ticks_ = AxisTicks(highest_y);
  }

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
  std::vector<double> x_ticks_;
  std::vector<double> y_ticks_;
  std::ostringstream svg_;
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

}  // namespace quire::bench
