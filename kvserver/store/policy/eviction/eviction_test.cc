// SPDX-License-Identifier: Apache-2.0
//
// Order of each simple policy, on examples that can be checked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kvserver/store/policy/eviction/gdsf.h"
#include "kvserver/store/policy/eviction/lfu.h"
#include "kvserver/store/policy/eviction/lru.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;

TEST(LruTest, TheVictimIsWhatWasNotUsedForLongest) {
  Lru lru;
  for (uint64_t i = 0; i < 4; ++i) Insert(lru, i);
  Touch(lru, 0);
  lru.Remove(ExtentNumber(2));
  EXPECT_THAT(EvictAll(lru), ElementsAre(1, 3, 0));
}

TEST(LruTest, WhatSteppedAsideComesBackInFrontOfWhatIsWarmer) {
  Lru lru;
  for (uint64_t i = 0; i < 4; ++i) Insert(lru, i);
  // 0 and 1 are held, and offered again by the next search.
  EXPECT_EQ(lru.Victim([](const ExtentId& id) { return NumberOf(id) > 1; }), ExtentNumber(2));
  EXPECT_THAT(EvictAll(lru), ElementsAre(0, 1, 2, 3));
}

TEST(LruTest, WhatIsTouchedWhileAsideIsTheWarmest) {
  Lru lru;
  for (uint64_t i = 0; i < 3; ++i) Insert(lru, i);
  EXPECT_EQ(lru.Victim([](const ExtentId& id) { return NumberOf(id) == 2; }), ExtentNumber(2));
  Touch(lru, 0);
  lru.Remove(ExtentNumber(1));
  EXPECT_THAT(EvictAll(lru), ElementsAre(2, 0));
}

TEST(LruTest, AmongManyHeldExtentsThoseReleasedLeaveBeforeWarmerOnesSoon) {
  Lru lru;
  constexpr uint64_t kHeld = 100;
  for (uint64_t i = 0; i < 10 * kHeld; ++i) Insert(lru, i);
  std::set<uint64_t> held;
  for (uint64_t i = 0; i < kHeld; ++i) held.insert(i);
  const auto free = [&](const ExtentId& id) { return !held.contains(NumberOf(id)); };
  EXPECT_EQ(lru.Victim(free), ExtentNumber(kHeld));
  held.erase(50);
  // Every search offers some held extents again; within kHeld searches all were offered.
  bool left = false;
  for (uint64_t i = 0; i < kHeld && !left; ++i) {
    const ExtentId victim = lru.Victim(free).value();
    left = NumberOf(victim) == 50;
    lru.Evict(victim);
  }
  EXPECT_TRUE(left);
}

TEST(LfuTest, TheVictimWasUsedLeastOftenAndAmongEqualsLongestAgo) {
  Lfu lfu;
  for (uint64_t i = 0; i < 4; ++i) Insert(lfu, i);
  Touch(lfu, 0, 2);  // uses: 0:3, 1:1, 2:2, 3:2, and 3 was used before 2
  Touch(lfu, 3);
  Touch(lfu, 2);
  EXPECT_THAT(EvictAll(lfu), ElementsAre(1, 3, 2, 0));
}

TEST(LfuTest, CountsStartAgainWhenAnExtentComesBack) {
  Lfu lfu;
  Insert(lfu, 1);
  Touch(lfu, 1, 10);
  lfu.Evict(ExtentNumber(1));
  Insert(lfu, 1);
  Insert(lfu, 2);
  Touch(lfu, 2);
  EXPECT_EQ(EvictOne(lfu), 1u);
}

// Cost 1: priority = clock + frequency / bytes.
//   1: 1000 bytes, 1 use    0 + 1/1000 = 0.001
//   2: 4000 bytes, 3 uses   0 + 3/4000 = 0.00075
//   3:  500 bytes, 1 use    0 + 1/500  = 0.002
TEST(GdsfTest, SmallExtentsStayWhenEveryHitCountsTheSame) {
  Gdsf gdsf(Gdsf::Cost::kOne);
  Insert(gdsf, 1, 1000);
  Insert(gdsf, 2, 4000);
  Insert(gdsf, 3, 500);
  Touch(gdsf, 2, 2);
  EXPECT_THAT(EvictAll(gdsf), ElementsAre(2, 1, 3));
}

// Cost = size: priority = clock + frequency, for any size.
TEST(GdsfTest, SizeDoesNotMatterWhenEveryByteCountsTheSame) {
  Gdsf gdsf(Gdsf::Cost::kBytes);
  Insert(gdsf, 1, 1000);
  Insert(gdsf, 2, 4000);
  Touch(gdsf, 2);
  Insert(gdsf, 3, 1);
  EXPECT_THAT(EvictAll(gdsf), ElementsAre(1, 3, 2));
}

// The clock. 1 is used three times: priority 3. Each round brings a new extent and evicts one.
//   2 comes with 0 + 1, leaves, clock 1.   3 comes with 1 + 1, leaves, clock 2.
//   4 comes with 2 + 1 = 3, as much as 1 has, but 1 was placed first: 1 leaves.
TEST(GdsfTest, WhatIsNotUsedAnyMoreFallsBehindWhatComes) {
  Gdsf gdsf(Gdsf::Cost::kBytes);
  Insert(gdsf, 1);
  Touch(gdsf, 1, 2);
  Insert(gdsf, 2);
  EXPECT_EQ(EvictOne(gdsf), 2u);
  Insert(gdsf, 3);
  EXPECT_EQ(EvictOne(gdsf), 3u);
  Insert(gdsf, 4);
  EXPECT_EQ(EvictOne(gdsf), 1u);
}

TEST(GdsfTest, WhatIsDeletedDoesNotMoveTheClock) {
  Gdsf gdsf(Gdsf::Cost::kBytes);
  Insert(gdsf, 1);
  Touch(gdsf, 1, 9);
  gdsf.Remove(ExtentNumber(1));
  Insert(gdsf, 2);  // 0 + 1, not 10 + 1
  Touch(gdsf, 2);
  Insert(gdsf, 3);
  EXPECT_THAT(EvictAll(gdsf), ElementsAre(3, 2));
}

}  // namespace
}  // namespace quire::kvserver::testing
