// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/bar_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/kit/output/scatter_plot.h"
#include "apps/kit/output/svg_drawing.h"

namespace quire::cli {
namespace {

constexpr int kBarsRight = 790, kBarsTop = 50;
constexpr int kLetter = 7, kWidestNames = 340;
constexpr int kBarHeight = 12, kBarGap = 8, kBarsFoot = 52, kSeriesStep = 20;

/// Pixels for the names of groups, before the bars.
int NamesWidth(const BarPlot& plot) {
  size_t letters = 0;
  for (const BarGroup& group : plot.groups) letters = std::max(letters, group.name.size());
  return std::min(static_cast<int>(letters) * kLetter + 3 * kLetter, kWidestNames);
}

int BarsOf(const BarPlot& plot) {
  size_t bars = 0;
  for (const BarGroup& group : plot.groups) bars += group.values.size();
  return static_cast<int>(bars);
}

double Highest(const BarPlot& plot) {
  double highest = 0;
  for (const BarGroup& group : plot.groups) {
    for (const auto& [series, value] : group.values) highest = std::max(highest, value);
  }
  return highest;
}

std::string ValueText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

class BarDrawing {
 public:
  explicit BarDrawing(const BarPlot& plot)
      : plot_(plot),
        ticks_(AxisTicks(Highest(plot))),
        left_(NamesWidth(plot)),
        legend_(plot.series.size() > 1 ? static_cast<int>(plot.series.size()) * kSeriesStep : 0),
        bottom_(kBarsTop + BarsOf(plot) * kBarHeight +
                static_cast<int>(plot.groups.size()) * kBarGap + kBarGap),
        svg_(bottom_ + kBarsFoot + legend_, plot.title) {}

  std::string Draw() {
    for (const double tick : ticks_) {
      svg_.GridLine(X(tick), kBarsTop, X(tick), bottom_);
      svg_.Text(X(tick), bottom_ + 18, "middle", NumberText(tick));
    }
    svg_.Text((left_ + kBarsRight) / 2, bottom_ + 40, "middle", plot_.value_title);
    int y = kBarsTop + kBarGap;
    for (const BarGroup& group : plot_.groups) {
      const int height = static_cast<int>(group.values.size()) * kBarHeight;
      svg_.Text(left_ - 8, y + height / 2 + 4, "end", group.name);
      for (const auto& [series, value] : group.values) {
        DrawBar(group, series, value, y);
        y += kBarHeight;
      }
      y += kBarGap;
    }
    if (legend_ > 0) DrawLegend();
    return svg_.Finish();
  }

 private:
  int X(double value) const {
    return left_ + static_cast<int>(std::lround(value / ticks_.back() * (kBarsRight - left_)));
  }
  void DrawBar(const BarGroup& group, size_t series, double value, int y) {
    const std::string name = plot_.series.size() > 1 ? " " + plot_.series[series] : "";
    svg_.Bar(series, left_, y, X(std::max(value, 0.0)) - left_, kBarHeight - 1,
             group.name + name + ": " + ValueText(value));
    svg_.Text(X(std::max(value, 0.0)) + 5, y + kBarHeight - 2, "start", ValueText(value),
              " font-size=\"11\"");
  }
  void DrawLegend() {
    int y = bottom_ + kBarsFoot + kSeriesStep / 2;
    for (size_t series = 0; series < plot_.series.size(); ++series) {
      svg_.Bar(series, left_, y - kBarHeight + 1, kBarHeight, kBarHeight - 1, plot_.series[series]);
      svg_.Text(left_ + kBarHeight + 8, y, "start", plot_.series[series]);
      y += kSeriesStep;
    }
  }

  const BarPlot& plot_;
  const std::vector<double> ticks_;
  const int left_;
  const int legend_;
  const int bottom_;
  SvgDrawing svg_;
};

}  // namespace

std::string ToSvg(const BarPlot& plot) { return BarDrawing(plot).Draw(); }

}  // namespace quire::cli
