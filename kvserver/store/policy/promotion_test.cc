// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/testing/promotion_conformance.h"
#include "kvserver/store/policy/touch_promotion.h"

namespace quire::kvserver::testing {
namespace {

MakePromotion AtTouch(uint32_t touches) {
  return [=] { return std::make_unique<TouchPromotion>(touches, 10); };
}
INSTANTIATE_TEST_SUITE_P(Touch, PromotionConformanceTest,
                         ::testing::Values(AtTouch(1), AtTouch(2), AtTouch(5)));

TEST(TouchPromotionTest, PromotesAtTheGivenTouchAndStartsAgainAfterIt) {
  TouchPromotion policy(3, 10);
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(policy.Touch(ExtentNumber(1)));
    EXPECT_FALSE(policy.Touch(ExtentNumber(1)));
    EXPECT_TRUE(policy.Touch(ExtentNumber(1)));
  }
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
