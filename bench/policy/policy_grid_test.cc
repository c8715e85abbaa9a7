// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/policy_grid.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

// The expected orderings of policies, over every cosine and jump rate of a context for each group
// size.
TEST(PolicyGridTest, TheOrderingsHold) {
  GridOptions options;
  options.steps = 24;
  options.max_tokens = 8192;
  options.page_tokens = {64};
  options.group_sizes = {1, 4};
  options.trials = OrderedTrials();
  const auto grid = RunGrid(options);
  ASSERT_TRUE(grid.ok()) << grid.status();
  const Orderings& orderings = grid->orderings;
  EXPECT_EQ(orderings.cells, 5u * 3 * 2) << "cosines, jump rates, group sizes";
  EXPECT_EQ(orderings.oracle_below_quest, 0u);
  EXPECT_EQ(orderings.quest_below_streaming, 0u);
  EXPECT_EQ(orderings.correction_differs_from_quest, 0u);
  EXPECT_EQ(orderings.speculation_is_not_a_step_old, 0u);
  EXPECT_GT(orderings.quest_mass, orderings.streaming_mass);
  ASSERT_EQ(orderings.by_jump_rate.size(), 2u);
  for (const auto& [rate, of_rate] : orderings.by_jump_rate) {
    SCOPED_TRACE(rate);
    EXPECT_EQ(of_rate.cells, 4u * 2);
    EXPECT_GE(of_rate.jumps, 4u) << "in the cells of every cosine";
    EXPECT_GT(of_rate.corrected, 0u);
    EXPECT_GT(of_rate.freekv_mass, of_rate.speculation_mass) << "seed " << options.seed;
  }
  EXPECT_TRUE(orderings.hold());
  // As published, quest pools differently from freekv, and selects other pages.
  EXPECT_NE(grid->all.at("quest").masses, grid->all.at("quest_mean_softmax").masses);
  EXPECT_EQ(grid->all.at("correction").masses, grid->all.at("quest_mean_softmax").masses);
}

Orderings Good() {
  Orderings good{.cells = 10, .quest_mass = 6, .streaming_mass = 2, .by_jump_rate = {}};
  for (const double rate : {0.01, 0.05}) {
    good.by_jump_rate[rate] = {.cells = 2,
                               .jumps = 3,
                               .corrected = 2,
                               .not_improved = 1,
                               .freekv_mass = 4,
                               .speculation_mass = 3};
  }
  return good;
}

TEST(PolicyGridTest, OneOrderingThatFailsIsEnoughNotToHold) {
  EXPECT_TRUE(Good().hold());
  for (uint64_t Orderings::*count :
       {&Orderings::oracle_below_quest, &Orderings::quest_below_streaming,
        &Orderings::correction_differs_from_quest, &Orderings::speculation_is_not_a_step_old}) {
    Orderings bad = Good();
    ++(bad.*count);
    EXPECT_FALSE(bad.hold());
  }
  Orderings bad = Good();
  bad.quest_mass = 1;
  EXPECT_FALSE(bad.hold());
}

TEST(PolicyGridTest, CorrectionsThatDoNotPayAtOneRateAreEnoughNotToHold) {
  for (const double rate : {0.01, 0.05}) {
    for (const double freekv_mass : {3.0, 2.9}) {
      Orderings bad = Good();
      bad.by_jump_rate[rate].freekv_mass = freekv_mass;
      EXPECT_FALSE(bad.hold()) << rate;
    }
    Orderings without_jumps = Good();
    without_jumps.by_jump_rate[rate].jumps = 0;
    EXPECT_FALSE(without_jumps.hold()) << rate;
  }
  Orderings without_rates = Good();
  without_rates.by_jump_rate.clear();
  EXPECT_FALSE(without_rates.hold());
}

TEST(PolicyGridTest, OrderingsOfPartsAddUpByRate) {
  Orderings sum = Good();
  sum.Add(Good());
  EXPECT_EQ(sum.cells, 20u);
  ASSERT_EQ(sum.by_jump_rate.size(), 2u);
  EXPECT_EQ(sum.by_jump_rate[0.05].jumps, 6u);
  EXPECT_EQ(sum.by_jump_rate[0.05].not_improved, 2u);
  EXPECT_DOUBLE_EQ(sum.by_jump_rate[0.01].freekv_mass, 8);
}

}  // namespace
}  // namespace quire::bench
