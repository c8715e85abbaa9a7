// SPDX-License-Identifier: Apache-2.0
//
// quire bench cluster as a program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/integration/bench_report.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ExpectPositive;
using testing::ExpectShares;
using testing::Figure;

TEST(BenchClusterProcessTest, TheReportHasReadsHedgesAndMoves) {
  const json report =
      testing::BenchReport({"cluster", "--documents", "3", "--rounds", "1", "--repeats", "1",
                            "--slow-reads", "64", "--slow-millis", "10", "--runs", "2000"});
  ExpectPositive(report, {"cpu_per_gib_3_vs_1", "hedged_vs_unhedged_p99", "moved_vs_ideal_join",
                          "moved_vs_ideal_leave", "most_over_mean", "healthy_p99_ms",
                          "unhedged_p99_ms", "hedged_p99_ms"});
  ExpectShares(report, {"hedged_share"});
  EXPECT_TRUE(report.contains("router_us") && report.contains("router_hedged_read_us"));
  EXPECT_GE(Figure(report, "unhedged_p99_ms"), 10) << "the slow node was asked";
  EXPECT_DOUBLE_EQ(Figure(report, "moved_vs_ideal_join"), 1);
  ASSERT_EQ(report.value("servers", json::array()).size(), 3u);
  for (const json& part : report["servers"]) {
    ExpectPositive(part, {"servers", "cpu_seconds_per_gib", "gib_per_s"});
  }
}

}  // namespace
}  // namespace quire
