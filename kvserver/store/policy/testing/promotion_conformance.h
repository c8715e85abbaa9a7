// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of PromotionPolicy, whatever it promotes.
#ifndef QUIRE_KVSERVER_STORE_POLICY_TESTING_PROMOTION_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_POLICY_TESTING_PROMOTION_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "kvserver/store/policy/promotion_policy.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {

using MakePromotion = std::function<std::unique_ptr<PromotionPolicy>()>;

class PromotionConformanceTest : public ::testing::TestWithParam<MakePromotion> {
 protected:
  /// Touches until the extent is promoted; 0 when it never is.
  int TouchesUntilPromoted(uint64_t number) {
    for (int touches = 1; touches <= 1000; ++touches) {
      if (policy_->Touch(ExtentNumber(number))) return touches;
    }
    return 0;
  }

  std::unique_ptr<PromotionPolicy> policy_ = GetParam()();
};

TEST_P(PromotionConformanceTest, WhatIsReadOftenEnoughIsPromoted) {
  EXPECT_GT(TouchesUntilPromoted(1), 0);
}

TEST_P(PromotionConformanceTest, WhatWasPromotedAndLeftIsPromotedAgain) {
  const int first = TouchesUntilPromoted(1);
  EXPECT_EQ(TouchesUntilPromoted(1), first);
}

TEST_P(PromotionConformanceTest, ExtentsAndLayersAreCountedApart) {
  const int alone = TouchesUntilPromoted(1);
  for (int i = 1; i < alone; ++i) {
    EXPECT_FALSE(policy_->Touch({.segment = SegmentNumber(2), .layer = 0}));
    EXPECT_FALSE(policy_->Touch({.segment = SegmentNumber(2), .layer = 1}));
    EXPECT_FALSE(policy_->Touch({.segment = SegmentNumber(3), .layer = 0}));
  }
  EXPECT_TRUE(policy_->Touch({.segment = SegmentNumber(2), .layer = 1}));
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_POLICY_TESTING_PROMOTION_CONFORMANCE_H_
