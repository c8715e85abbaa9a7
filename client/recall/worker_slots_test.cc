// SPDX-License-Identifier: Apache-2.0
#include "client/recall/worker_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(ManagedLayersTest, LayersKeepTheOrderInWhichTheyWereNamed) {
  const ManagedLayers layers({5, 1});
  EXPECT_TRUE(layers.Contains(5));
  EXPECT_FALSE(layers.Contains(0));
  EXPECT_FALSE(layers.Contains(6));
  EXPECT_EQ(layers.IndexOf(5), 0u);
  EXPECT_EQ(layers.IndexOf(1), 1u);
}

TEST(WorkerSlotsTest, APlacementChangesItsSlotAndNoOther) {
  WorkerSlots map(ManagedLayers({3, 1}), 2, 2);
  map.AddSequence(1, 2);
  map.Place({.sequence = 1, .layer = 1, .head = 1, .slot = 0, .generation = 4, .page = 9});
  EXPECT_THAT(map.Pages(1, 1), ElementsAre(-1, -1, 9, -1));
  EXPECT_THAT(map.Generations(1, 1), ElementsAre(0, 0, 4, 0));
  EXPECT_THAT(map.Pages(1, 3), Each(-1));
}

TEST(WorkerSlotsTest, EverySequenceHasItsOwnNumberOfSlots) {
  WorkerSlots map(ManagedLayers({3, 1}), 2, 4);
  map.AddSequence(0, 1);
  map.AddSequence(1, 3);
  EXPECT_EQ(map.slots_per_head(), 4u);
  EXPECT_EQ(map.slots_per_head(0), 1u);
  EXPECT_EQ(map.slots_per_head(1), 3u);
  map.Place({.sequence = 0, .layer = 1, .head = 1, .slot = 0, .generation = 1, .page = 7});
  map.Place({.sequence = 1, .layer = 1, .head = 1, .slot = 2, .generation = 2, .page = 8});
  EXPECT_THAT(map.Pages(0, 3), ElementsAre(-1, -1));
  EXPECT_THAT(map.Pages(0, 1), ElementsAre(-1, 7));
  EXPECT_THAT(map.Pages(1, 1), ElementsAre(-1, -1, -1, -1, -1, 8));
  EXPECT_THAT(map.Generations(1, 1), ElementsAre(0, 0, 0, 0, 0, 2));
  map.Empty(1, 1);
  EXPECT_THAT(map.Pages(1, 1), Each(-1));
  EXPECT_THAT(map.Pages(0, 1), ElementsAre(-1, 7));
  map.RemoveSequence(0);
  map.AddSequence(0, 4);
  EXPECT_EQ(map.Pages(0, 3).size(), 8u);
}

TEST(WorkerSlotsTest, SequencesComeAndGoByNumber) {
  WorkerSlots map(ManagedLayers({0}), 1, 1);
  EXPECT_FALSE(map.Has(0));
  map.AddSequence(2, 1);
  EXPECT_FALSE(map.Has(0));
  EXPECT_TRUE(map.Has(2));
  map.lane(2, 0).applied = 5;
  map.RemoveSequence(2);
  EXPECT_FALSE(map.Has(2));
  map.AddSequence(2, 1);
  EXPECT_EQ(map.lane(2, 0).applied, 0u);
}

TEST(WorkerSlotsTest, AnEmptiedLaneKeepsItsGenerations) {
  WorkerSlots map(ManagedLayers({0, 1}), 1, 2);
  map.AddSequence(0, 2);
  map.Place({.layer = 0, .slot = 1, .generation = 4, .page = 9});
  map.Place({.layer = 1, .slot = 1, .generation = 2, .page = 8});
  map.Empty(0, 0);
  EXPECT_THAT(map.Pages(0, 0), ElementsAre(-1, -1));
  EXPECT_THAT(map.Generations(0, 0), ElementsAre(0, 4));
  EXPECT_THAT(map.Pages(0, 1), ElementsAre(-1, 8));
}

}  // namespace
}  // namespace quire::internal
