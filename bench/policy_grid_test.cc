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
  EXPECT_EQ(orderings.quest_below_streaming, 0u);
  EXPECT_EQ(orderings.correction_differs_from_quest, 0u);
  EXPECT_EQ(orderings.speculation_is_not_a_step_old, 0u);
  EXPECT_GT(orderings.quest_mass, orderings.streaming_mass);
  EXPECT_GT(orderings.jumps_freekv_mass, orderings.jumps_speculation_mass)
      << "seed " << options.seed;
  EXPECT_GT(orderings.jumps_corrected, 0u);
  EXPECT_LT(orderings.jumps_corrected, 5u * 2 * 3 * 3)
      << "where nothing turns, nothing is corrected";
  EXPECT_LE(2 * orderings.jumps_not_improved, orderings.jumps_corrected);
  EXPECT_TRUE(orderings.hold());
  for (const std::string& name : TrialNames()) {
    ASSERT_TRUE(grid->all.contains(name)) << name;
    EXPECT_EQ(grid->all.at(name).head_steps, grid->all.at("quest").head_steps)
        << name << " did not run in every cell";
  }
}

TEST(PolicyGridTest, OneOrderingThatFailsIsEnoughNotToHold) {
  const Orderings good{.cells = 10,
                       .jumps_corrected = 4,
                       .jumps_not_improved = 2,
                       .quest_mass = 6,
                       .streaming_mass = 2,
                       .jumps_freekv_mass = 4,
                       .jumps_speculation_mass = 3};
  EXPECT_TRUE(good.hold());
  for (uint64_t Orderings::*count :
       {&Orderings::oracle_below_quest, &Orderings::quest_below_streaming,
        &Orderings::correction_differs_from_quest, &Orderings::speculation_is_not_a_step_old,
        &Orderings::jumps_not_improved}) {
    Orderings bad = good;
    ++(bad.*count);
    EXPECT_FALSE(bad.hold());
  }
  for (double Orderings::*mass : {&Orderings::quest_mass, &Orderings::jumps_freekv_mass}) {
    Orderings bad = good;
    bad.*mass = 1;
    EXPECT_FALSE(bad.hold());
  }
}

}  // namespace
}  // namespace quire::bench
