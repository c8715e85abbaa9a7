// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/report_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

cli::Json Report() {
  return cli::Json::parse(R"({
    "suite": "edges",
    "fast_16k_gb_per_s": 2.5, "fast_128k_gb_per_s": 5, "slow_16k_gb_per_s": 1,
    "rows": [{"nodes": 3, "way": "near", "ns": 10}, {"nodes": 9, "way": "near", "ns": 40},
             {"nodes": 3, "way": "far", "ns": 30}, {"way": "far", "ns": 99}]})");
}

TEST(ReportPlotTest, RowsBecomeLinesByTheValuesBesideThem) {
  const auto plot = MakePlot({.title = "of {/suite}",
                              .value_title = "us",
                              .lines = {{.figures = R"(/rows/(\d+)/ns)",
                                         .name = "{/rows/$1/way}",
                                         .place = "{/rows/$1/nodes}",
                                         .times = 0.5,
                                         .place_times = 2}}},
                             Report());
  ASSERT_TRUE(plot.has_value());
  const auto& made = std::get<cli::ScatterPlot>(*plot);
  EXPECT_EQ(made.title, "of edges");
  ASSERT_EQ(made.lines.size(), 2u);
  EXPECT_EQ(made.lines[0].name, "near");
  ASSERT_EQ(made.lines[0].points.size(), 2u);
  EXPECT_EQ(made.lines[0].points[1].x, 18);
  EXPECT_EQ(made.lines[0].points[1].y, 20);
  EXPECT_EQ(made.lines[1].points.size(), 1u) << "a row without a place is left out";
}

TEST(ReportPlotTest, KeysBecomeGroupsOfBars) {
  const Plotter plotter = PlotterOf(
      {{.title = "absent", .lines = {{.figures = "/nothing"}}},
       {.title = "speeds",
        .value_title = "GB/s",
        .bars = {{.figures = R"(/(\w+)_(\d+k)_gb_per_s)", .name = "$2", .place = "$1"}}}});
  const auto plot = plotter(Report());
  ASSERT_TRUE(plot.ok()) << plot.status();
  const auto& made = std::get<cli::BarPlot>(*plot);
  EXPECT_THAT(made.series, ElementsAre("16k", "128k"));
  ASSERT_EQ(made.groups.size(), 2u);
  EXPECT_EQ(made.groups[0].name, "fast");
  EXPECT_THAT(made.groups[0].values, ElementsAre(Pair(0, 2.5), Pair(1, 5)));
  EXPECT_THAT(made.groups[1].values, ElementsAre(Pair(0, 1)));
  const std::string svg = ToSvg(*plot);
  EXPECT_THAT(svg, HasSubstr("fast 128k: 5"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_TRUE(IsInvalidArgument(plotter(cli::Json::object()).status()));
}

TEST(ReportPlotTest, FiguresCountWhereTwoTextsAreEqual) {
  const auto plot = MakePlot({.title = "t",
                              .value_title = "ns",
                              .bars = {{.figures = R"(/rows/(\d+)/ns)",
                                        .place = "$1",
                                        .where = {"{/rows/$1/way}", "far"}}}},
                             Report());
  ASSERT_TRUE(plot.has_value());
  EXPECT_EQ(std::get<cli::BarPlot>(*plot).groups.size(), 2u);
}

}  // namespace
}  // namespace quire::bench
