// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/scatter_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// True if every element of `svg` is closed, in order, and every attribute quoted.
bool IsWellFormed(const std::string& svg) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = svg.find('<', at)) != std::string::npos;) {
    const size_t end = svg.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = svg.substr(at + 1, end - at - 1);
    if (std::ranges::count(tag, '"') % 2 != 0 || tag.find('<') != std::string::npos) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end;
  }
  return open.empty();
}

TEST(ScatterPlotTest, TheDrawingIsWellFormedAndHasEveryPoint) {
  const ScatterPlot plot{.title = "a < b & \"c\"",
                         .x_title = "x",
                         .y_title = "y",
                         .lines = {{.name = "one", .points = {{0, 10, "p"}, {50, 90, "q>"}}},
                                   {.name = "two & more", .points = {{100, 100, "r"}}}},
                         .levels = {{.name = "level", .y = 92}}};
  const std::string svg = ToSvg(plot);
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(IsWellFormed(svg)) << svg;
  for (const char* part : {"one p", "one q&gt;", "two &amp; more r", "a &lt; b &amp; &quot;c&quot;",
                           "level", "stroke-dasharray"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  // The far corner of the axes, and their origin with the height of 10 in 410 pixels.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"656\" y=\"46\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"70\" cy=\"419\""));
  EXPECT_TRUE(IsWellFormed(ToSvg({})));
}

TEST(ScatterPlotTest, TicksAreRoundNumbersUpToTheHighest) {
  EXPECT_THAT(AxisTicks(100), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(AxisTicks(1234), ElementsAre(0, 500, 1000, 1500));
  EXPECT_THAT(AxisTicks(0.9), SizeIs(6));
  EXPECT_THAT(AxisTicks(0), ElementsAre(0, 1));
}

TEST(ScatterPlotTest, TextHasLinesAxesAndALegend) {
  const ScatterPlot plot{.x_title = "x",
                         .y_title = "y",
                         .lines = {{.name = "one", .points = {{0, 4}, {5, 4}, {5, 0}, {10, 0}}},
                                   {.name = "two", .points = {{0, 4}, {10, 4}}}}};
  EXPECT_EQ(ToText(plot, 11, 5),
            "y\n"
            "      4 |######.....\n"
            "      3 |     #\n"
            "      2 |     #\n"
            "      1 |     #\n"
            "      0 |     ######\n"
            "        +-----------\n"
            "         0 2 4 6 8 10  x\n"
            "         # one\n"
            "         . two\n");
  EXPECT_THAT(ToText({}, 0, 0), HasSubstr("+--------\n"));
}

}  // namespace
}  // namespace quire::cli
