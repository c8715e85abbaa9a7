// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/samkv/retrieval_ratio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

// Worked example of the formulas in retrieval_ratio.h.
TEST(RetrievalRatioTest, WorkedRatios) {
  EXPECT_DOUBLE_EQ(LayerRatio({.4, 1, 0}), .6);
  EXPECT_EQ(LayerRatio({1, 1, 0}), 0);
  EXPECT_EQ(LayerRatio({0, 1, 0}), 0);
  EXPECT_EQ(LayerRatio({-.1, 1, 0}), 0);
  EXPECT_EQ(LayerRatio({1.2, 1, 0}), 0);
  EXPECT_EQ(LayerRatio({.5, .3, .6}), 0);
}

// The last one is above the block that should score most, so not every block scores more.
TEST(RetrievalRatioTest, WeakAnchorsMaySaturate) {
  EXPECT_DOUBLE_EQ(LayerRatio({.4, 1, 0}, WeakAnchor::kSaturate), .6);
  EXPECT_EQ(LayerRatio({1, 1, 0}, WeakAnchor::kSaturate), 0);
  EXPECT_EQ(LayerRatio({0, 1, 0}, WeakAnchor::kSaturate), 1);
  EXPECT_EQ(LayerRatio({-.1, 1, 0}, WeakAnchor::kSaturate), 1);
  EXPECT_EQ(LayerRatio({1.2, 1, 0}, WeakAnchor::kSaturate), 0);
  EXPECT_EQ(LayerRatio({.5, .3, .6}, WeakAnchor::kSaturate), 0);
}

TEST(RetrievalRatioTest, ScoresThatAreNoNumbersReadNothing) {
  const double nan = std::nan("");
  for (const WeakAnchor weak : {WeakAnchor::kNothing, WeakAnchor::kSaturate}) {
    EXPECT_EQ(LayerRatio({nan, 1, 0}, weak), 0);
    EXPECT_EQ(LayerRatio({.4, nan, 0}, weak), 0);
    EXPECT_EQ(LayerRatio({-.4, nan, 0}, weak), 0);
    EXPECT_EQ(LayerRatio({.4, 1, nan}, weak), 0);
  }
}

TEST(RetrievalRatioTest, TheRatioIsTheMeanOverLayers) {
  const std::vector<BlockScores> layers = {{.4, 1, 0}, {1, 1, 0}, {-.1, 1, 0}, {5, 10, 0}};
  EXPECT_DOUBLE_EQ(RetrievalRatio(layers), (.6 + .5) / 4);
  EXPECT_DOUBLE_EQ(RetrievalRatio(layers, WeakAnchor::kSaturate), (.6 + 1 + .5) / 4);
  EXPECT_EQ(RetrievalRatio({}), 0);
}

TEST(RetrievalRatioTest, TheQuotaIsRoundedUp) {
  EXPECT_EQ(RetrievalQuota(0, 18), 0u);
  EXPECT_EQ(RetrievalQuota(1e-6, 18), 1u);
  EXPECT_EQ(RetrievalQuota(.5, 18), 9u);
  EXPECT_EQ(RetrievalQuota(.51, 18), 10u);
  EXPECT_EQ(RetrievalQuota(1, 18), 18u);
  EXPECT_EQ(RetrievalQuota(.6, 0), 0u) << "a document of three blocks";
}

// .07 * 100 is 7.000000000000001 in double precision.
TEST(RetrievalRatioTest, TheQuotaIsNotRoundedUpForRounding) {
  ASSERT_GT(.07 * 100, 7);
  EXPECT_EQ(RetrievalQuota(.07, 100), 7u);
}

TEST(RetrievalRatioTest, SharesOutsideTheirRangeCountAsItsEnds) {
  EXPECT_EQ(RetrievalQuota(-.1, 18), 0u);
  EXPECT_EQ(RetrievalQuota(1.5, 18), 18u);
  EXPECT_EQ(RetrievalQuota(std::nan(""), 18), 0u);
  EXPECT_EQ(RetrievalQuota(1, 4'000'000'000), 4'000'000'000u);
}

// The cosines with (3, 4) are .6, -.8 and 0: a negative one counts by its size.
TEST(PersonalisedQueryTest, OtherDocumentsBiasTheQueryByTheirCosine) {
  const std::vector<float> query = {3, 4}, locals = {2, 0, 0, -5, 8, -6};
  EXPECT_THAT(PersonalisedQuery(query, locals, 0),
              ElementsAre(FloatEq(3), FloatEq(4 + .5f * .8f * -5)));
  EXPECT_THAT(PersonalisedQuery(query, locals, 1),
              ElementsAre(FloatEq(3 + .5f * .6f * 2), FloatEq(4)));
  EXPECT_THAT(PersonalisedQuery(query, locals, 2),
              ElementsAre(FloatEq(3 + .5f * .6f * 2), FloatEq(4 + .5f * .8f * -5)));
}

TEST(PersonalisedQueryTest, ADocumentAloneHasTheQueryItself) {
  EXPECT_THAT(PersonalisedQuery(std::vector<float>{3, 4}, std::vector<float>{7, 7}, 0),
              ElementsAre(3, 4));
}

TEST(PersonalisedQueryTest, VectorsOfLengthZeroBiasNothing) {
  EXPECT_THAT(PersonalisedQuery(std::vector<float>{3, 4}, std::vector<float>{1, 1, 0, 0}, 0),
              ElementsAre(3, 4));
  EXPECT_THAT(PersonalisedQuery(std::vector<float>{0, 0}, std::vector<float>{1, 1, 2, 3}, 0),
              ElementsAre(0, 0));
}

}  // namespace
}  // namespace quire::worker
