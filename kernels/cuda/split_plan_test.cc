// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/split_plan.h"

#include <gtest/gtest.h>

namespace quire::kernels::cuda {
namespace {

// 64 slots of 32 tokens in tiles of 64: 32 tiles. The device runs 800 blocks at a time.
constexpr SplitRequest kRequest = {.n_slots = 64,
                                   .page_tokens = 32,
                                   .tile_tokens = 64,
                                   .blocks_per_split = 8,
                                   .resident_blocks = 800,
                                   .split_bytes = 1000,
                                   .workspace_bytes = 1000000};

TEST(SplitPlan, OneSequenceIsSplitDownToWholeTiles) {
  const SplitPlan plan = PlanSplits(kRequest);
  EXPECT_EQ(plan.splits, 32);
  EXPECT_EQ(plan.slots_per_split, 2);
}

TEST(SplitPlan, ManyBlocksNeedNoSplit) {
  SplitRequest request = kRequest;
  request.blocks_per_split = 800;
  EXPECT_EQ(PlanSplits(request).splits, 1);
  EXPECT_EQ(PlanSplits(request).slots_per_split, 64);
}

// 11 splits would be 704 blocks; 44 of them would wait for the others.
TEST(SplitPlan, AllBlocksRunAtATime) {
  SplitRequest request = kRequest;
  request.blocks_per_split = 64;
  request.resident_blocks = 660;
  const SplitPlan plan = PlanSplits(request);
  EXPECT_EQ(plan.splits, 8);
  EXPECT_EQ(plan.slots_per_split, 8);
}

// 300 blocks on a device that runs 200: the second round is half empty, but not with shorter
// blocks.
TEST(SplitPlan, ALastRoundThatIsHalfEmptyIsShorterInSplits) {
  SplitRequest request = kRequest;
  request.blocks_per_split = 300;
  request.resident_blocks = 200;
  EXPECT_EQ(PlanSplits(request).splits, 2);
}

TEST(SplitPlan, TheWorkspaceBoundsTheSplits) {
  SplitRequest request = kRequest;
  for (const int64_t bytes : {int64_t{0}, int64_t{999}}) {
    request.workspace_bytes = bytes;
    EXPECT_EQ(PlanSplits(request).splits, 1) << bytes;
  }
  request.workspace_bytes = 3999;
  EXPECT_EQ(PlanSplits(request).splits, 3);
}

// Every slot is in one split and no split is empty, whatever the sizes.
TEST(SplitPlan, SplitsCoverTheSlots) {
  for (int64_t slots = 1; slots < 70; ++slots) {
    for (int64_t room = 0; room < 70; ++room) {
      SplitRequest request = kRequest;
      request.n_slots = slots;
      request.page_tokens = 64;
      request.workspace_bytes = room * request.split_bytes;
      const SplitPlan plan = PlanSplits(request);
      ASSERT_LE(plan.splits, room > 1 ? room : 1);
      ASSERT_GE(plan.splits * plan.slots_per_split, slots);
      ASSERT_LT((plan.splits - 1) * plan.slots_per_split, slots);
    }
  }
}

}  // namespace
}  // namespace quire::kernels::cuda
