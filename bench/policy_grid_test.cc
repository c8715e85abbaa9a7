// SPDX-License-Identifier: Apache-2.0
#include "bench/policy_grid.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

// The orderings of G.3, over every cell of the shortest contexts.
TEST(PolicyGridTest, TheOrderingsHold) {
  GridOptions options;
  options.steps = 3;
  options.max_tokens = 8192;
  const auto grid = RunGrid(options);
  ASSERT_TRUE(grid.ok()) << grid.status();
  const Orderings& orderings = grid->orderings;
  EXPECT_EQ(orderings.cells, 5u * 3 * 3 * 3) << "cosines, jump rates, group sizes, page sizes";
  EXPECT_EQ(orderings.oracle_below_quest, 0u);
  EXPECT_EQ(orderings.correction_differs_from_quest, 0u);
  EXPECT_EQ(orderings.speculation_is_not_a_step_old, 0u);
  EXPECT_GT(orderings.quest_mass, orderings.streaming_mass);
  EXPECT_GT(orderings.jumps_freekv_mass, orderings.jumps_speculation_mass)
      << "seed " << options.seed;
  EXPECT_TRUE(orderings.hold());
  for (const std::string& name : TrialNames()) {
    ASSERT_TRUE(grid->all.contains(name)) << name;
    EXPECT_EQ(grid->all.at(name).head_steps, grid->all.at("quest").head_steps)
        << name << " did not run in every cell";
  }
}

}  // namespace
}  // namespace quire::bench
