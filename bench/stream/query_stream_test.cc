// SPDX-License-Identifier: Apache-2.0
//
// The stream has the stated properties, and resembles the published ones.
#include "bench/stream/query_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "bench/stream/vectors.h"

namespace quire::bench {
namespace {

TopicShape SmallShape() { return {.pages = 256, .page_tokens = 16, .head_dim = 64, .topics = 16}; }

double Cosine(std::span<const float> a, std::span<const float> b) {
  return Dot(a, b) / (Norm(a) * Norm(b));
}

std::span<const float> HeadOf(const QueryStream& stream, uint32_t head, size_t dimensions) {
  return stream.queries().subspan(head * dimensions, dimensions);
}

TEST(TopicPagesTest, PagesComeInRunsAndKeysScatterAroundTheirTopic) {
  const TopicPages pages({.pages = 4096, .page_tokens = 4, .head_dim = 32, .topics = 64});
  uint32_t runs = 1;
  double squares = 0;
  for (uint32_t page = 0; page < 4096; ++page) {
    if (page > 0 && pages.topic_of(page) != pages.topic_of(page - 1)) ++runs;
    const auto centre = pages.centre(pages.topic_of(page));
    const auto keys = pages.keys(page);
    for (size_t i = 0; i < keys.size(); ++i) {
      squares += std::pow(keys[i] - centre[i % centre.size()], 2);
    }
  }
  EXPECT_NEAR(4096.0 / runs, 8.0, 1.0);
  EXPECT_NEAR(squares / (4096.0 * 4 * 32), 1.0, 0.02);
}

TEST(TopicPagesTest, TheSeedDecides) {
  TopicShape shape = SmallShape();
  const TopicPages a(shape), b(shape);
  EXPECT_TRUE(std::ranges::equal(a.keys(17), b.keys(17)));
  shape.seed = 2;
  const TopicPages other(shape);
  EXPECT_FALSE(std::ranges::equal(a.keys(17), other.keys(17)));
}

TEST(TopicPagesTest, MassesAreTheSoftmaxOverAllKeys) {
  const std::vector<float> scores = {0, std::log(2.0f), 0, 0};
  const std::vector<double> masses = PageMasses(scores, 2);
  EXPECT_NEAR(masses[0], 0.6, 1e-6);
  EXPECT_NEAR(masses[1], 0.4, 1e-6);
  EXPECT_NEAR(PageMasses(scores, 2, 2)[0], 5.0 / 7, 1e-6);
  EXPECT_NEAR(TopMass({0.1, 0.5, 0.4}, 2), 0.9, 1e-12);
}

TEST(QueryStreamTest, StepsHaveTheCosineAndTheLengthAndStayAroundTheirTopic) {
  const TopicPages pages(SmallShape());
  for (const double c : {0.8, 0.9, 0.95, 0.99}) {
    SCOPED_TRACE(c);
    QueryStream stream(pages, {.group_size = 3, .cosine = c});
    const auto topic = pages.centre(stream.topic());
    double to_topic = 0;
    constexpr int kSteps = 400;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> before(stream.queries().begin(), stream.queries().end());
      stream.Step();
      for (uint32_t head = 0; head < 3; ++head) {
        const auto query = HeadOf(stream, head, 64);
        EXPECT_NEAR(Cosine(query, std::span(before).subspan(head * 64, 64)), c, 1e-4);
        EXPECT_NEAR(Norm(query), stream.norm(), 1e-3 * stream.norm());
        to_topic += Cosine(query, topic) / (3.0 * kSteps);
      }
    }
    EXPECT_NEAR(to_topic, 0.30, 0.1);
    EXPECT_LT(Cosine(HeadOf(stream, 0, 64), HeadOf(stream, 1, 64)), 0.6) << "heads differ";
  }
}

TEST(QueryStreamTest, TheBestSixteenthOfThePagesHoldsMostOfTheAttention) {
  const TopicPages pages({.pages = 1024, .page_tokens = 32, .head_dim = 128});
  QueryStream stream(pages, {.cosine = 0.95, .seed = 3});
  double mass = 0;
  int samples = 0;
  for (int step = 0; step < 160; ++step, stream.Step()) {
    if (step % 8 != 0) continue;
    mass += TopMass(PageMasses(KeyScores(pages, HeadOf(stream, 1, 128)), 32), 64);
    ++samples;
  }
  EXPECT_NEAR(mass / samples, 0.95, 0.02);
}

/// Share of the best sixteenth of the pages in the steps that calibrate a stream's length.
double CalibratedMass(const TopicPages& pages, const QueryOptions& options) {
  QueryStream stream(pages, options);
  const TopicShape& shape = pages.shape();
  double mass = 0;
  for (uint32_t sample = 0; sample < 16; ++sample) {
    for (int step = 0; step < 8; ++step) stream.Step();
    const auto query = HeadOf(stream, sample % options.group_size, shape.head_dim);
    mass += TopMass(PageMasses(KeyScores(pages, query), shape.page_tokens), shape.pages / 16);
  }
  return mass / 16;
}

TEST(QueryStreamTest, TheLengthIsExactWhateverTheShape) {
  const TopicShape shapes[] = {SmallShape(),
                               {.pages = 16, .page_tokens = 32, .head_dim = 64, .topics = 4},
                               {.pages = 128, .page_tokens = 1, .head_dim = 16, .topics = 2},
                               {.pages = 128, .page_tokens = 16, .topic_deviation = 0.01},
                               {.pages = 128, .page_tokens = 16, .topic_deviation = 5}};
  for (const TopicShape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.pages << " pages, " << shape.topic_deviation);
    const TopicPages pages(shape);
    for (const double c : {0.8, 0.95, 0.99}) {
      for (const double topic : {0.0, 0.3}) {
        EXPECT_NEAR(CalibratedMass(pages, {.cosine = c, .topic_cosine = topic}), 0.95, 1e-4);
      }
    }
  }
}

// A single page holds everything at any length.
TEST(QueryStreamTest, TheLengthIsTheLeastWhereAnyWillDo) {
  const TopicPages pages({.pages = 1, .page_tokens = 8, .head_dim = 16, .topics = 2});
  EXPECT_NEAR(QueryStream(pages, {}).norm(), 1e-3, 1e-8);
}

TEST(QueryStreamTest, JumpsGoToOtherTopicsAtTheirRate) {
  const TopicPages pages(SmallShape());
  QueryStream stream(pages, {.group_size = 1, .cosine = 0.95, .jump_rate = 0.05});
  int jumps = 0;
  for (int step = 0; step < 2000; ++step) {
    const uint32_t before = stream.topic();
    const std::vector<float> query(stream.queries().begin(), stream.queries().end());
    stream.Step();
    if (stream.topic() == before) continue;
    ++jumps;
    EXPECT_LT(Cosine(query, stream.queries()), 0.6);
  }
  EXPECT_NEAR(jumps, 100, 40);
}

TEST(QueryStreamTest, TheSameSeedGivesTheSameQueries) {
  const TopicPages pages(SmallShape());
  QueryStream a(pages, {.seed = 5}), b(pages, {.seed = 5}), other(pages, {.seed = 6});
  for (int step = 0; step < 5; ++step) a.Step(), b.Step(), other.Step();
  EXPECT_TRUE(std::ranges::equal(a.queries(), b.queries()));
  EXPECT_FALSE(std::ranges::equal(a.queries(), other.queries()));
}

}  // namespace
}  // namespace quire::bench
