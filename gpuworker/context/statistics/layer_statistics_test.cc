// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/layer_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"

namespace quire::worker {
namespace {

constexpr uint32_t kDim = 8;

RopeSpec Rope() {
  RopeSpec rope;
  rope.rotary_dim = kDim;
  return rope;
}

std::vector<float> Normal(SeededRandom& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Below(2001)) / 1000 - 1;
  return values;
}

TEST(BlockSplitTest, FirstAndLastTwoBlocksAreNotMiddleOnes) {
  const BlockSplit split{.tokens = 300};
  EXPECT_EQ(split.blocks(), 5u);
  EXPECT_EQ(split.middle_blocks(), 2u);
  EXPECT_FALSE(split.IsMiddle(0));
  EXPECT_TRUE(split.IsMiddle(2));
  EXPECT_FALSE(split.IsMiddle(3));
  EXPECT_EQ(split.End(4), 300u);
  EXPECT_EQ((BlockSplit{.tokens = 192}).middle_blocks(), 0u);
  EXPECT_EQ((BlockSplit{.tokens = 193}).middle_blocks(), 1u);
}

/// Statistics of a layer whose queries are all at hand, one KV head.
LayerStatistics Of(const std::vector<float>& queries, const std::vector<float>& keys,
                   uint32_t query_heads, const BlockSplit& split, const RopeRotation& rope,
                   uint64_t first_position = 0) {
  const std::vector<uint32_t> sampled = SampledTokens(split.tokens);
  EXPECT_EQ(sampled.size(), split.tokens);
  return StatisticsOf({.keys = keys.data(),
                       .sampled_queries = queries.data(),
                       .local_queries = queries.data() + split.LocalBegin() * query_heads * kDim,
                       .first_position = first_position,
                       .num_query_heads = query_heads,
                       .num_kv_heads = 1,
                       .head_dim = kDim},
                      split, sampled, rope);
}

TEST(SampledTokensTest, AreEvenlySpacedWithTheLast) {
  EXPECT_THAT(SampledTokens(10, 5), ::testing::ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(SampledTokens(3, 5), ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(SampledTokens(1000, 256).back(), 999u);
}

TEST(LayerStatisticsTest, MeansAreOfVectorsWithoutRotation) {
  // The same key and query everywhere, rotated to each position.
  const RopeRotation rotation(Rope());
  const BlockSplit split{.tokens = 40, .block_tokens = 8};
  SeededRandom random(3);
  const std::vector<float> key = Normal(random, kDim);
  const std::vector<float> query = Normal(random, 2 * kDim);
  std::vector<float> keys;
  std::vector<float> queries;
  for (uint32_t i = 0; i < split.tokens; ++i) {
    keys.insert(keys.end(), key.begin(), key.end());
    queries.insert(queries.end(), query.begin(), query.end());
    // To position 0 from the negative of where it is: to where it is from position 0.
    std::vector<float> cosines(kDim / 2);
    std::vector<float> sines(kDim / 2);
    rotation.FillMove(100 + i, cosines.data(), sines.data());
    const auto turn = [&](float* x) {
      for (size_t c = 0; c < kDim / 2; ++c) {
        const float a = x[c];
        const float b = x[c + kDim / 2];
        x[c] = a * cosines[c] - b * sines[c];
        x[c + kDim / 2] = b * cosines[c] + a * sines[c];
      }
    };
    turn(keys.data() + i * kDim);
    turn(queries.data() + i * 2 * kDim);
    turn(queries.data() + i * 2 * kDim + kDim);
  }
  const LayerStatistics statistics = Of(queries, keys, 2, split, rotation, 100);
  ASSERT_EQ(statistics.representative_keys.size(), 2 * kDim);
  for (size_t i = 0; i < statistics.representative_keys.size(); ++i) {
    EXPECT_NEAR(statistics.representative_keys[i], key[i % kDim], 1e-5);
  }
  ASSERT_EQ(statistics.local_query.size(), 2 * kDim);
  for (size_t i = 0; i < statistics.local_query.size(); ++i) {
    EXPECT_NEAR(statistics.local_query[i], query[i], 1e-5);
  }
}

TEST(LayerStatisticsTest, ATokenThatIsSeenFromAfarIsAnOutlierAndItsBlockTheMostImportant) {
  // Attention falls with distance, e^(-x/20), but to token 42, to which it grows. Channels: a
  // key's position, its share of the query's, and token 42. Without rotation.
  constexpr uint32_t kFar = 42;
  const BlockSplit split{.tokens = 96, .block_tokens = 8};
  const float scale = std::sqrt(static_cast<float>(kDim));
  std::vector<float> keys(split.tokens * kDim, 0);
  std::vector<float> queries(split.tokens * kDim, 0);
  for (uint32_t i = 0; i < split.tokens; ++i) {
    keys[i * kDim] = static_cast<float>(i);
    keys[i * kDim + 1] = 1;
    queries[i * kDim] = 0.05f * scale;
    queries[i * kDim + 1] = -0.05f * scale * static_cast<float>(i);
    if (i > kFar) queries[i * kDim + 2] = scale * (2 * std::log(static_cast<float>(i - kFar)) - 6);
  }
  keys[kFar * kDim] = keys[kFar * kDim + 1] = 0;
  keys[kFar * kDim + 2] = 1;
  const LayerStatistics statistics = Of(queries, keys, 1, split, RopeRotation(RopeSpec{}));
  EXPECT_EQ(statistics.most, split.BlockOf(kFar));
  EXPECT_NE(statistics.least, split.BlockOf(kFar));
  EXPECT_THAT(statistics.outlier_tokens, ::testing::ElementsAre(kFar));
  ASSERT_EQ(statistics.middle.size(), 9u);
  EXPECT_LT(statistics.middle[4].exponent, 0);
  EXPECT_GT(statistics.middle[0].exponent, 0);
}

TEST(LayerStatisticsTest, AShortDocumentHasNoMiddle) {
  const BlockSplit split{.tokens = 20, .block_tokens = 8};
  const std::vector<float> rows(split.tokens * kDim, 1);
  const LayerStatistics statistics = Of(rows, rows, 1, split, RopeRotation(Rope()));
  EXPECT_TRUE(statistics.middle.empty());
  EXPECT_TRUE(statistics.outlier_tokens.empty());
  EXPECT_EQ(statistics.local_query.size(), kDim);
}

}  // namespace
}  // namespace quire::worker
