// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/session_plan.h"

#include <gtest/gtest.h>

#include <iostream>

namespace quire::bench {
namespace {

TEST(SessionPlanTest, MeasuresRecallsOfTenThousandUnits) {
  const auto figures = MeasureSessionPlan(21);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_GE(figures->units, 10000u);
  EXPECT_GT(figures->units_sent, figures->units / 20);
  EXPECT_LT(figures->units_sent, figures->units / 5);
  EXPECT_GT(figures->plan_us_per_10k_units, 0);
  EXPECT_GT(figures->recall_us_per_10k_units, figures->plan_us_per_10k_units);
  std::cout << "plan_us_per_10k_units " << figures->plan_us_per_10k_units << ", all replaced "
            << figures->plan_all_us_per_10k_units << ", whole recall "
            << figures->recall_us_per_10k_units << "\n";
}

}  // namespace
}  // namespace quire::bench
