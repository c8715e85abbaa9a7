// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/lru.h"
#include "kvserver/store/testing/policy_conformance.h"
#include "kvserver/store/touch_promotion.h"

namespace quire::kvserver::testing {
namespace {

std::unique_ptr<EvictionPolicy> MakeLru() { return std::make_unique<Lru>(); }
INSTANTIATE_TEST_SUITE_P(Lru, PolicyConformanceTest, ::testing::Values(&MakeLru));

TEST(LruTest, TheVictimIsWhatWasNotUsedForLongest) {
  Lru lru;
  for (uint64_t i = 0; i < 3; ++i) lru.Insert(ExtentNumber(i), 4096);
  EXPECT_EQ(lru.Victim(AnyExtent), ExtentNumber(0));
  lru.Touch(ExtentNumber(0));
  EXPECT_EQ(lru.Victim(AnyExtent), ExtentNumber(1));
  lru.Remove(ExtentNumber(1));
  EXPECT_EQ(lru.Victim(AnyExtent), ExtentNumber(2));
}

TEST(TouchPromotionTest, PromotesAtTheGivenTouchAndStartsAgainAfterIt) {
  TouchPromotion policy(3, 10);
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(policy.Touch(ExtentNumber(1)));
    EXPECT_FALSE(policy.Touch(ExtentNumber(1)));
    EXPECT_TRUE(policy.Touch(ExtentNumber(1)));
  }
}

TEST(TouchPromotionTest, CountsExtentsApart) {
  TouchPromotion policy(2, 10);
  EXPECT_FALSE(policy.Touch(ExtentNumber(1)));
  EXPECT_FALSE(policy.Touch(ExtentNumber(2)));
  EXPECT_TRUE(policy.Touch(ExtentNumber(1)));
}

TEST(TouchPromotionTest, OneTouchPromotesAtOnce) {
  TouchPromotion policy(1, 10);
  EXPECT_TRUE(policy.Touch(ExtentNumber(1)));
}

TEST(TouchPromotionTest, ForgetsWhatWasTouchedLongestAgo) {
  TouchPromotion policy(2, 2);
  EXPECT_FALSE(policy.Touch(ExtentNumber(1)));
  EXPECT_FALSE(policy.Touch(ExtentNumber(2)));
  EXPECT_FALSE(policy.Touch(ExtentNumber(3)));  // 1 is forgotten
  EXPECT_FALSE(policy.Touch(ExtentNumber(1)));  // 2 is forgotten
  EXPECT_TRUE(policy.Touch(ExtentNumber(3)));
}

}  // namespace
}  // namespace quire::kvserver::testing
