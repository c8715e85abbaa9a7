// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/pgdsf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;

void InsertWithCost(Pgdsf& policy, uint64_t number, double cost, uint64_t parent = 0) {
  policy.Insert({.id = ExtentNumber(number),
                 .bytes = 4096,
                 .parent = SegmentNumber(parent),
                 .seconds_per_token = cost});
}

// priority = clock + frequency * average cost
//   1: 0 + 1 * 5 = 5     2: 0 + 3 * 1 = 3     3: 0 + 2 * 2 = 4
TEST(PgdsfTest, TheVictimHasTheLeastFrequencyTimesCost) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 5);
  InsertWithCost(policy, 2, 1);
  InsertWithCost(policy, 3, 2);
  Touch(policy, 2, 2);
  Touch(policy, 3);
  EXPECT_THAT(EvictAll(policy), ElementsAre(2, 3, 1));
}

TEST(PgdsfTest, SizeIsNotDividedByAgain) {
  Pgdsf policy;
  policy.Insert({.id = ExtentNumber(1), .bytes = 1 << 30, .seconds_per_token = 2});
  policy.Insert({.id = ExtentNumber(2), .bytes = 1, .seconds_per_token = 1});
  EXPECT_THAT(EvictAll(policy), ElementsAre(2, 1));
}

// The clock is the evicted priority:
//   1 with 3, 2 with 1; 2 leaves, clock 1.   3 comes: 1 + 1 = 2; leaves, clock 2.
//   4 comes: 2 + 1.5 = 3.5; now 1 leaves, clock 3.
TEST(PgdsfTest, TheClockIsTheHighestPriorityThatWasEvicted) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 3);
  InsertWithCost(policy, 2, 1);
  EXPECT_EQ(EvictOne(policy), 2u);
  EXPECT_DOUBLE_EQ(policy.clock(), 1);
  InsertWithCost(policy, 3, 1);
  EXPECT_EQ(EvictOne(policy), 3u);
  EXPECT_DOUBLE_EQ(policy.clock(), 2);
  InsertWithCost(policy, 4, 1.5);
  EXPECT_EQ(EvictOne(policy), 1u);
  EXPECT_DOUBLE_EQ(policy.clock(), 3);
}

// Worked example: 0 + 3 * 2 = 6; a later extent has 6 + 1 * 2 = 8. Alone, cost 8 over size 4 is 2.
TEST(PgdsfTest, WorkedVector) {
  Pgdsf first;
  InsertWithCost(first, 1, 2);
  Touch(first, 1, 2);
  first.Evict(ExtentNumber(1));
  EXPECT_DOUBLE_EQ(first.clock(), 6);
  InsertWithCost(first, 2, 2);
  first.Evict(ExtentNumber(2));
  EXPECT_DOUBLE_EQ(first.clock(), 8);
  Pgdsf second;
  InsertWithCost(second, 1, 8.0 / 4);
  second.Evict(ExtentNumber(1));
  EXPECT_DOUBLE_EQ(second.clock(), 2);
}

// 2 stays below the clock until it is touched: then 3 + 2 * 1 = 5.
TEST(PgdsfTest, ATouchRecomputesThePriorityWithTheClockOfNow) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 3);
  policy.Evict(ExtentNumber(1));
  EXPECT_DOUBLE_EQ(policy.clock(), 3);
  InsertWithCost(policy, 2, 1);
  InsertWithCost(policy, 3, 1.5);
  Touch(policy, 2);
  EXPECT_EQ(EvictOne(policy), 3u);
  EXPECT_DOUBLE_EQ(policy.clock(), 4.5);
  EXPECT_EQ(EvictOne(policy), 2u);
  EXPECT_DOUBLE_EQ(policy.clock(), 5);
}

// 1 came at a cost of 4, left (clock 4), came back at a cost of 2: frequency 2, average 3, so
// 4 + 2 * 3 = 10.
TEST(PgdsfTest, UsesAndCostsOfEarlierStaysCount) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 4);
  policy.Evict(ExtentNumber(1));
  InsertWithCost(policy, 1, 2);
  policy.Evict(ExtentNumber(1));
  EXPECT_DOUBLE_EQ(policy.clock(), 10);
}

TEST(PgdsfTest, NothingIsRememberedOfWhatWasDeleted) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 4);
  policy.Remove(ExtentNumber(1));
  EXPECT_DOUBLE_EQ(policy.clock(), 0);
  InsertWithCost(policy, 1, 2);
  policy.Evict(ExtentNumber(1));
  EXPECT_DOUBLE_EQ(policy.clock(), 2);
}

TEST(PgdsfTest, WhatLeftLongAgoIsForgotten) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 1);
  Touch(policy, 1, 99);  // frequency 100
  policy.Evict(ExtentNumber(1));
  for (uint64_t i = 2; i < 2000; ++i) {
    InsertWithCost(policy, i, 1e-9);
    policy.Evict(ExtentNumber(i));
  }
  const double clock = policy.clock();
  InsertWithCost(policy, 1, 1);
  policy.Evict(ExtentNumber(1));
  EXPECT_NEAR(policy.clock(), clock + 1, 1e-6) << "frequency 1, not 101";
}

// Costs known: 2 and 4, so 3 counts with 3: the order is 1 (2), 3 (3), 2 (4).
TEST(PgdsfTest, AnUnknownCostCountsAsTheMeanOfTheKnownOnes) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 2);
  InsertWithCost(policy, 2, 4);
  InsertWithCost(policy, 3, 0);
  EXPECT_THAT(EvictAll(policy), ElementsAre(1, 3, 2));
}

// The chain 1 <- 2 <- 3, and 4 which is another child of 1. Priorities 1, 5, 9 and 3: by priority 1
// would leave first, but it is the parent of all.
TEST(PgdsfTest, AnExtentLeavesBeforeWhatItContinues) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 1);
  InsertWithCost(policy, 2, 5, 1);
  InsertWithCost(policy, 3, 9, 2);
  InsertWithCost(policy, 4, 3, 1);
  EXPECT_THAT(EvictAll(policy), ElementsAre(4, 3, 2, 1));
}

TEST(PgdsfTest, AParentThatComesAfterItsChildIsNoLeafEither) {
  Pgdsf policy;
  InsertWithCost(policy, 2, 5, 1);
  InsertWithCost(policy, 1, 1);
  EXPECT_THAT(EvictAll(policy), ElementsAre(2, 1));
}

TEST(PgdsfTest, LayersAreChainsOfTheirOwn) {
  Pgdsf policy;
  const ExtentId parent{.segment = SegmentNumber(1), .layer = 1};
  policy.Insert({.id = parent, .bytes = 1, .seconds_per_token = 1});
  policy.Insert({.id = {.segment = SegmentNumber(2), .layer = 0},
                 .bytes = 1,
                 .parent = SegmentNumber(1),
                 .seconds_per_token = 2});
  EXPECT_EQ(policy.Victim(AnyExtent), parent);
}

TEST(PgdsfTest, WhenNoLeafCanLeaveAParentDoes) {
  Pgdsf policy;
  InsertWithCost(policy, 1, 1);
  InsertWithCost(policy, 2, 5, 1);
  EXPECT_EQ(policy.Victim([](const ExtentId& id) { return NumberOf(id) == 1; }), ExtentNumber(1));
}

// Property: after any operations a victim has no tracked child.
TEST(PgdsfTest, TheTrackedChainsStayClosedUnderParents) {
  const uint64_t seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  Pgdsf policy;
  // Extent n continues n / 2: a binary tree with root 1.
  std::vector<bool> tracked(512);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t number = 1 + random.Below(255);
    if (random.Below(3) == 0) {
      if (const auto victim = policy.Victim(AnyExtent)) {
        const uint64_t v = NumberOf(*victim);
        ASSERT_FALSE(tracked[2 * v] || tracked[2 * v + 1]) << v;
        policy.Evict(*victim);
        tracked[v] = false;
      }
    } else if (tracked[number]) {
      Touch(policy, number);
    } else if (number == 1 || tracked[number / 2]) {
      InsertWithCost(policy, number, random.Uniform(), number / 2);
      tracked[number] = true;
    }
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
