// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

std::vector<int> TakeAll(ReuseOrder<int>& order, size_t count) {
  std::vector<int> taken;
  for (size_t i = 0; i < count; ++i) taken.push_back(order.Take());
  return taken;
}

TEST(ReuseOrderTest, TheMostCachedForEachComputedTokenIsFirst) {
  ReuseOrder<int> order(10);
  order.Add(1, {.cached = 0, .to_compute = 5});
  order.Add(2, {.cached = 100, .to_compute = 50});
  order.Add(3, {.cached = 90, .to_compute = 10});
  order.Add(4, {.cached = 180, .to_compute = 20});
  EXPECT_THAT(TakeAll(order, 4), ElementsAre(3, 4, 2, 1)) << "of equal ones the first to come";
  EXPECT_EQ(order.passed(), 2u + 2 + 1);
}

TEST(ReuseOrderTest, AQuestionIsPassedOverABoundedNumberOfTimes) {
  ReuseOrder<int> order(2);
  order.Add(0, {.cached = 0, .to_compute = 5});
  for (int i = 1; i <= 4; ++i) order.Add(i, {.cached = 10, .to_compute = 5});
  EXPECT_THAT(TakeAll(order, 5), ElementsAre(1, 2, 0, 3, 4));
}

TEST(ReuseOrderTest, WithoutAWindowQuestionsStartAsTheyCame) {
  ReuseOrder<int> order(0);
  order.Add(1, {.cached = 0, .to_compute = 5});
  order.Add(2, {.cached = 10, .to_compute = 5});
  EXPECT_THAT(TakeAll(order, 2), ElementsAre(1, 2));
  EXPECT_EQ(order.passed(), 0u);
}

}  // namespace
}  // namespace quire::worker
