// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/turn_limit.h"

#include <gtest/gtest.h>

#include <optional>

namespace quire::kvserver {
namespace {

TEST(TurnLimitTest, RefusesOverTheLimitAndTurnsComeBack) {
  TurnLimit limit(2, "the session");
  auto first = std::make_optional(limit.Take());
  const auto second = limit.Take();
  ASSERT_TRUE(first->ok() && second.ok());
  for (int i = 0; i < 3; ++i) {
    const auto refused = limit.Take();
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryAfter(refused.status())) << refused.status();
  }
  first.reset();
  EXPECT_TRUE(limit.Take().ok()) << "a refusal takes no turn";
}

}  // namespace
}  // namespace quire::kvserver
