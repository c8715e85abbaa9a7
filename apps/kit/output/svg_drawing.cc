// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/svg_drawing.h"

#include <array>
#include <cstdio>

namespace quire::cli {
namespace {

struct SeriesColour {
  const char* light;
  const char* dark;
};
// Distinct for people who do not distinguish red from green.
constexpr std::array<SeriesColour, 12> kSeriesColours = {{{"#4477aa", "#77aadd"},
                                                          {"#ee6677", "#ff8899"},
                                                          {"#228833", "#66cc77"},
                                                          {"#aa8800", "#ddbb44"},
                                                          {"#0099bb", "#66ccee"},
                                                          {"#aa3377", "#dd77bb"},
                                                          {"#777777", "#aaaaaa"},
                                                          {"#cc5500", "#ff9955"},
                                                          {"#332288", "#9988ee"},
                                                          {"#117733", "#55bb88"},
                                                          {"#882255", "#cc6699"},
                                                          {"#999933", "#cccc66"}}};
constexpr const char* kLightStyle = ".b{fill:#fff}.t{fill:#222}.g{stroke:#ddd}.l{stroke:#333}";
constexpr const char* kDarkStyle =
    ".b{fill:#16191d}.t{fill:#e2e6ea}.g{stroke:#30373f}.l{stroke:#c8cdd3}";

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

/// Rules of the colours of all series.
std::string Style() {
  std::string light = kLightStyle, dark = kDarkStyle;
  const auto add = [](size_t index, const char* colour, std::string* rules) {
    const std::string number = std::to_string(index);
    rules->append(".s" + number + "{stroke:" + colour + "}.f" + number + "{fill:" + colour + "}");
  };
  for (size_t i = 0; i < kSeriesColours.size(); ++i) {
    add(i, kSeriesColours[i].light, &light);
    add(i, kSeriesColours[i].dark, &dark);
  }
  return "<style>" + light + "@media screen and (prefers-color-scheme:dark){" + dark +
         "}</style>\n";
}

std::string ClassOf(char kind, size_t index) {
  return std::string(" class=\"") + kind + std::to_string(index % kSeriesColours.size()) + "\"";
}

/// The shape of a series' marks, without its end.
std::string Shape(size_t index, int x, int y) {
  const auto at = [](int px, int py) {
    return std::to_string(px) + "," + std::to_string(py) + " ";
  };
  switch (index % 4) {
    case 0:
      return "<circle cx=\"" + std::to_string(x) + "\" cy=\"" + std::to_string(y) + "\" r=\"4\"";
    case 1:
      return "<rect x=\"" + std::to_string(x - 4) + "\" y=\"" + std::to_string(y - 4) +
             "\" width=\"8\" height=\"8\"";
    case 2:
      return "<polygon points=\"" + at(x, y - 5) + at(x + 5, y + 4) + at(x - 5, y + 4) + "\"";
    default:
      return "<polygon points=\"" + at(x, y - 5) + at(x + 5, y) + at(x, y + 5) + at(x - 5, y) +
             "\"";
  }
}

}  // namespace

SvgDrawing::SvgDrawing(int height, const std::string& title) {
  svg_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << " " << height
       << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
       << Style() << "<rect class=\"b\" width=\"" << kWidth << "\" height=\"" << height << "\"/>\n";
  Text(kWidth / 2, 30, "middle", title, " font-size=\"15\"");
}

void SvgDrawing::Text(int x, int y, const char* anchor, const std::string& text,
                      const std::string& more) {
  svg_ << "<text class=\"t\" x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\""
       << more << ">" << Escape(text) << "</text>\n";
}

void SvgDrawing::GridLine(int x1, int y1, int x2, int y2) {
  svg_ << "<line class=\"g\" x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\""
       << y2 << "\"/>\n";
}

void SvgDrawing::LevelLine(int x1, int y1, int x2, int y2) {
  svg_ << "<line class=\"l\" stroke-dasharray=\"6 4\" x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\""
       << x2 << "\" y2=\"" << y2 << "\"/>\n";
}

void SvgDrawing::Polyline(size_t index, const std::vector<std::pair<int, int>>& points) {
  svg_ << "<polyline" << ClassOf('s', index) << " fill=\"none\" stroke-width=\"2\" points=\"";
  for (const auto& [x, y] : points) svg_ << x << "," << y << " ";
  svg_ << "\"/>\n";
}

void SvgDrawing::Mark(size_t index, int x, int y, const std::string& label) {
  const std::string shape = Shape(index, x, y);
  svg_ << shape << ClassOf('f', index);
  if (label.empty()) {
    svg_ << "/>\n";
    return;
  }
  svg_ << "><title>" << Escape(label) << "</title>"
       << "</" << shape.substr(1, shape.find(' ') - 1) << ">\n";
}

void SvgDrawing::Bar(size_t index, int x, int y, int width, int height, const std::string& label) {
  svg_ << "<rect" << ClassOf('f', index) << " x=\"" << x << "\" y=\"" << y << "\" width=\"" << width
       << "\" height=\"" << height << "\"><title>" << Escape(label) << "</title></rect>\n";
}

std::string SvgDrawing::Finish() { return svg_.str() + "</svg>\n"; }

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

}  // namespace quire::cli
