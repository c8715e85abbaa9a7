// SPDX-License-Identifier: Apache-2.0
//
// Promise 3 under power failures: some dozen rounds find no fault.
#include "bench/torture/power_run.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/kit/effort.h"

namespace quire::torture {
namespace {

constexpr uint32_t kRounds = testing::Effort(48, 8);

TEST(PowerRunTest, Promise3PowerFailuresLoseNothingThatWasPersisted) {
  std::ostringstream problems;
  const auto run =
      RunPowerFailures({.rounds = kRounds, .seed = 7, .log = &problems}, [](const std::string&) {});
  ASSERT_TRUE(run.ok()) << run.status();
  const PowerReport& report = *run;
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_EQ(report.totals.lost, 0u) << problems.str();
  EXPECT_EQ(report.totals.half, 0u) << problems.str();
  EXPECT_EQ(report.totals.appeared, 0u) << problems.str();
  EXPECT_EQ(report.totals.corrupt, 0u) << problems.str();
  EXPECT_EQ(report.refused_to_open, 0u) << problems.str();
  EXPECT_EQ(report.space_problems, 0u) << problems.str();
  EXPECT_EQ(report.stores_emptied, kRounds / 8);
  if (testing::kSanitized) return;  // Few rounds need not meet everything.
  EXPECT_GT(report.totals.persisted, 100u);
  EXPECT_GT(report.totals.acknowledged, report.totals.persisted);
  EXPECT_GT(report.changes_forgotten, 0u) << "nothing was forgotten: the test shows nothing";
  EXPECT_GT(report.changes_survived, 0u);
  EXPECT_GT(report.cut_while_opening, 0u);
  EXPECT_GT(report.totals.pins_kept, 0u);
  EXPECT_GT(report.totals.expired, 0u);
  EXPECT_GT(report.segments_evicted, 0u);
  EXPECT_GT(report.contexts_cut, 0u);
}

}  // namespace
}  // namespace quire::torture
