// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/chunk_impact.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace quire::worker {
namespace {

using Ids = std::vector<uint64_t>;

/// b = 1, and a shared evenly by a prefix of chunks 1 ... `chunks`.
ChunkAttention Chunk(double a, uint64_t chunks) {
  ChunkAttention chunk{.tokens = 2, .intra = 4, .prefix = {}};
  for (uint64_t id = 1; id <= chunks; ++id) {
    chunk.prefix.push_back({id, 5, a / static_cast<double>(chunks) * 2 * 5});
  }
  return chunk;
}

// Worked example of the formulas in chunk_impact.h.
TEST(ChunkImpactTest, WorkedImpacts) {
  EXPECT_NEAR(ChunkContextImpact(Chunk(.2, 2)), .5498, 5e-5);
  EXPECT_NEAR(ChunkContextImpact(Chunk(2, 5)), .8808, 5e-5);
}

// Worked example of the formulas in chunk_impact.h.
TEST(ChunkImpactTest, WorkedOverheads) {
  EXPECT_EQ(FixOverhead(Chunk(.2, 2), Ids{1, 2}), 0);
  EXPECT_DOUBLE_EQ(PrefixOverlap(Chunk(.2, 2), Ids{2}), .5);
  EXPECT_NEAR(FixOverhead(Chunk(.2, 2), Ids{2}), .2749, 5e-5);
  EXPECT_EQ(PrefixOverlap(Chunk(2, 5), Ids{}), 0);
  EXPECT_NEAR(FixOverhead(Chunk(2, 5), Ids{}), .8808, 5e-5);
  const Ids turned = {4, 1, 9, 2, 3};
  EXPECT_DOUBLE_EQ(PrefixOverlap(Chunk(2, 5), turned), .8);
  EXPECT_DOUBLE_EQ(OrderPenalty(Chunk(2, 5), turned), .5);
  EXPECT_NEAR(FixOverhead(Chunk(2, 5), turned), .5285, 5e-5);
}

// a = 6/(10*20) + 3/(10*5), b = 4/10^2.
TEST(ChunkImpactTest, AttentionCountsByPairOfTokens) {
  const ChunkAttention chunk{
      .tokens = 10, .intra = 4, .prefix = {{.id = 1, .tokens = 20, .inter = 6}, {2, 5, 3}}};
  EXPECT_NEAR(ChunkContextImpact(chunk), 1 / (1 + std::exp(-.09 / .04)), 1e-12);
}

TEST(ChunkImpactTest, ImpactIsFromAHalfToOne) {
  EXPECT_EQ(ChunkContextImpact(Chunk(0, 2)), .5);
  EXPECT_EQ(ChunkContextImpact(Chunk(0, 0)), .5);
  EXPECT_EQ(ChunkContextImpact(Chunk(1e9, 2)), 1);
}

TEST(ChunkImpactTest, WithoutAttentionWithinTheImpactIsOne) {
  ChunkAttention chunk = Chunk(.2, 2);
  chunk.intra = 0;
  EXPECT_EQ(ChunkContextImpact(chunk), 1);
  chunk.prefix.clear();
  EXPECT_EQ(ChunkContextImpact(chunk), 1);
  EXPECT_EQ(ChunkContextImpact({}), 1);
}

TEST(ChunkImpactTest, ChunksWithoutTokensDoNotCount) {
  ChunkAttention chunk = Chunk(.2, 2);
  const double impact = ChunkContextImpact(chunk);
  chunk.prefix.push_back({.id = 3});
  EXPECT_EQ(ChunkContextImpact(chunk), impact);
}

TEST(ChunkImpactTest, OverlapIsByAttentionNotByNumber) {
  ChunkAttention chunk = Chunk(1, 3);
  chunk.prefix[1].inter = 0;
  EXPECT_DOUBLE_EQ(PrefixOverlap(chunk, Ids{1, 7}), .5);
  EXPECT_DOUBLE_EQ(PrefixOverlap(chunk, Ids{2}), 0);
}

TEST(ChunkImpactTest, NothingIsLostOfAPrefixThatWasNotAttendedTo) {
  EXPECT_EQ(PrefixOverlap(Chunk(0, 0), Ids{1}), 1);
  EXPECT_EQ(PrefixOverlap(Chunk(0, 3), Ids{}), 1);
  EXPECT_EQ(FixOverhead(Chunk(0, 0), Ids{1}), 0);
}

TEST(ChunkImpactTest, OrderIsThatOfTheChunksInBoth) {
  const ChunkAttention chunk = Chunk(1, 3);
  EXPECT_EQ(OrderPenalty(chunk, Ids{1, 2, 3}), 0);
  EXPECT_EQ(OrderPenalty(chunk, Ids{9, 1, 8, 3}), 0);
  EXPECT_EQ(OrderPenalty(chunk, Ids{3, 2, 1}), 1);
  EXPECT_DOUBLE_EQ(OrderPenalty(chunk, Ids{2, 1, 3}), 1.0 / 3);
  EXPECT_EQ(OrderPenalty(chunk, Ids{2}), 0);
  EXPECT_EQ(OrderPenalty(chunk, Ids{}), 0);
}

TEST(ChunkImpactTest, OverheadIsClamped) {
  EXPECT_EQ(FixOverhead(Chunk(2, 5), Ids{}, 3), 1);
  EXPECT_EQ(FixOverhead(Chunk(2, 5), Ids{}, -1), 0);
  EXPECT_NEAR(FixOverhead(Chunk(2, 5), Ids{}, .5), .4404, 5e-5);
}

TEST(ChunkImpactTest, RecomputedTokensAreRoundedUp) {
  EXPECT_EQ(RecomputedTokens(.2749, 100), 28u);
  EXPECT_EQ(RecomputedTokens(0, 100), 0u);
  EXPECT_EQ(RecomputedTokens(1, 100), 100u);
}

}  // namespace
}  // namespace quire::worker
