// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/report_plot.h"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <utility>

#include "apps/kit/output/svg_drawing.h"

namespace quire::bench {
namespace {

struct Figure {
  std::string pointer;
  double value = 0;
};

/// Appends all numbers of `json` with their pointers, in order.
void Collect(const cli::Json& json, const cli::Json::json_pointer& at,
             std::vector<Figure>* figures) {
  if (json.is_number()) figures->push_back({at.to_string(), json.get<double>()});
  if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) Collect(json[i], at / i, figures);
  }
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) Collect(value, at / key, figures);
}

std::vector<Figure> FiguresOf(const cli::Json& report) {
  std::vector<Figure> figures;
  Collect(report, cli::Json::json_pointer(), &figures);
  return figures;
}

/// The text of a value of the report; nullopt where there is none.
std::optional<std::string> ValueAt(const cli::Json& report, const std::string& pointer) {
  if (!pointer.starts_with('/')) return std::nullopt;
  const cli::Json::json_pointer at(pointer);
  if (!report.contains(at)) return std::nullopt;
  const cli::Json& value = report.at(at);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// `text` with the report's values in place of "{POINTER}".
std::optional<std::string> Filled(std::string text, const cli::Json& report) {
  for (size_t begin = 0; (begin = text.find('{', begin)) != std::string::npos;) {
    const size_t end = text.find('}', begin);
    if (end == std::string::npos) break;
    const auto value = ValueAt(report, text.substr(begin + 1, end - begin - 1));
    if (!value) return std::nullopt;
    text.replace(begin, end - begin + 1, *value);
    begin += value->size();
  }
  return text;
}

struct Placed {
  std::string name;
  std::string place;
  double value = 0;
};

/// The figures of a series, where they are placed.
std::vector<Placed> PlacedOf(const FigureSeries& series, const std::vector<Figure>& figures,
                             const cli::Json& report) {
  const std::regex pattern(series.figures);
  std::vector<Placed> placed;
  for (const Figure& figure : figures) {
    std::smatch match;
    if (!std::regex_match(figure.pointer, match, pattern)) continue;
    const auto text = [&](const std::string& pieces) {
      return Filled(match.format(pieces), report);
    };
    const auto name = text(series.name), place = text(series.place);
    if (!name || !place || text(series.where.first) != text(series.where.second)) continue;
    placed.push_back({*name, *place, figure.value * series.times});
  }
  return placed;
}

/// The entry that is called `name`, which is added when there is none.
template <typename T>
T& Named(std::vector<T>& entries, const std::string& name) {
  const auto known = std::ranges::find(entries, name, &T::name);
  if (known != entries.end()) return *known;
  entries.emplace_back().name = name;
  return entries.back();
}

cli::ScatterPlot LinesOf(const FigurePlot& plot, const std::vector<Figure>& figures,
                         const cli::Json& report) {
  cli::ScatterPlot made{.title = Filled(plot.title, report).value_or(plot.title),
                        .x_title = plot.place_title,
                        .y_title = plot.value_title};
  for (const FigureSeries& series : plot.lines) {
    for (const Placed& one : PlacedOf(series, figures, report)) {
      char* end = nullptr;
      const double x = std::strtod(one.place.c_str(), &end) * series.place_times;
      if (one.place.empty() || *end != '\0') continue;
      Named(made.lines, one.name)
          .points.push_back({.x = x, .y = one.value, .label = cli::NumberText(x)});
    }
  }
  for (const FigureSeries& series : plot.levels) {
    for (const Placed& one : PlacedOf(series, figures, report)) {
      made.levels.push_back({one.name, one.value});
    }
  }
  return made;
}

cli::BarPlot BarsOf(const FigurePlot& plot, const std::vector<Figure>& figures,
                    const cli::Json& report) {
  cli::BarPlot made{.title = Filled(plot.title, report).value_or(plot.title),
                    .value_title = plot.value_title};
  for (const FigureSeries& series : plot.bars) {
    for (const Placed& one : PlacedOf(series, figures, report)) {
      auto known = std::ranges::find(made.series, one.name);
      if (known == made.series.end()) known = made.series.insert(known, one.name);
      Named(made.groups, one.place).values[static_cast<size_t>(known - made.series.begin())] =
          one.value;
    }
  }
  return made;
}

}  // namespace

std::optional<Plot> MakePlot(const FigurePlot& plot, const cli::Json& report) {
  const std::vector<Figure> figures = FiguresOf(report);
  if (!plot.lines.empty()) {
    cli::ScatterPlot lines = LinesOf(plot, figures, report);
    if (!lines.lines.empty()) return lines;
  }
  if (!plot.bars.empty()) {
    cli::BarPlot bars = BarsOf(plot, figures, report);
    if (!bars.groups.empty()) return bars;
  }
  return std::nullopt;
}

Plotter PlotterOf(std::vector<FigurePlot> plots) {
  return [plots = std::move(plots)](const cli::Json& report) -> StatusOr<Plot> {
    for (const FigurePlot& plot : plots) {
      if (auto made = MakePlot(plot, report)) return *std::move(made);
    }
    return InvalidArgument("the report has no figures to draw; give one of a whole run");
  };
}

std::string ToSvg(const Plot& plot) {
  return std::visit([](const auto& made) { return cli::ToSvg(made); }, plot);
}

}  // namespace quire::bench
