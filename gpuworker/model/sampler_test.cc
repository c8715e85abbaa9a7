// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace quire::worker {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Sampler Of(const SamplingOptions& options) {
  auto sampler = Sampler::Create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *sampler;
}

/// How often each of `logits` was drawn in `draws` draws.
std::vector<int> Counts(Sampler sampler, const std::vector<float>& logits, int draws) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[*sampler.Sample(logits)];
  return counts;
}

TEST(Sampler, GreedyTakesTheBestAndTheFirstOfEquals) {
  Sampler sampler = Of({});
  EXPECT_EQ(*sampler.Sample(std::vector<float>{-2, 3, 1}), 1);
  EXPECT_EQ(*sampler.Sample(std::vector<float>{5, 7, 7}), 1);
  EXPECT_EQ(*sampler.Sample(std::vector<float>{-kInf, -1e38f}), 1);
}

TEST(Sampler, NeverChoosesNanOrMinusInfinity) {
  const std::vector<float> logits = {kNan, 0, -kInf, 1, kNan};
  for (float temperature : {0.0f, 1.0f, 100.0f}) {
    for (float top_p : {0.5f, 1.0f}) {
      Sampler sampler = Of({.temperature = temperature, .top_p = top_p, .seed = 5});
      for (int i = 0; i < 200; ++i) {
        const TokenId id = *sampler.Sample(logits);
        EXPECT_TRUE(id == 1 || id == 3) << id;
      }
    }
  }
}

TEST(Sampler, WithoutANumberThereIsAnError) {
  for (float temperature : {0.0f, 1.0f}) {
    Sampler sampler = Of({.temperature = temperature});
    for (const auto& logits : {std::vector<float>{}, {kNan, kNan}, {-kInf, kNan}}) {
      EXPECT_EQ(sampler.Sample(logits).status().code(), StatusCode::kInvalidArgument);
    }
  }
}

TEST(Sampler, AnInfiniteLogitWinsAndTwoShare) {
  EXPECT_EQ(*Of({.temperature = 1}).Sample(std::vector<float>{1, kInf, 2}), 1);
  const std::vector<int> counts = Counts(Of({.temperature = 1, .seed = 1}), {kInf, 0, kInf}, 1000);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0], 500, 80);
}

TEST(Sampler, DrawsFollowTheSoftmaxOfTheTemperature) {
  const std::vector<float> logits = {0, 1, 2};
  constexpr int kDraws = 20000;
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    const std::vector<int> counts =
        Counts(Of({.temperature = temperature, .seed = 11}), logits, kDraws);
    double total = 0;
    for (float logit : logits) total += std::exp(logit / temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = std::exp(logits[i] / temperature) / total;
      EXPECT_NEAR(counts[i] / double{kDraws}, expected, 0.015) << temperature << " " << i;
    }
  }
}

TEST(Sampler, TheNucleusIsTheFewestTokensThatReachTopP) {
  // Probabilities 0.1, 0.5, 0.4.
  const std::vector<float> logits = {std::log(1.0f), std::log(5.0f), std::log(4.0f)};
  const auto drawn = [&](float top_p) {
    const std::vector<int> counts =
        Counts(Of({.temperature = 1, .top_p = top_p, .seed = 2}), logits, 2000);
    return std::array<bool, 3>{counts[0] > 0, counts[1] > 0, counts[2] > 0};
  };
  EXPECT_EQ(drawn(0.01f), (std::array<bool, 3>{false, true, false}));
  EXPECT_EQ(drawn(0.45f), (std::array<bool, 3>{false, true, false}));
  EXPECT_EQ(drawn(0.55f), (std::array<bool, 3>{false, true, true}));
  EXPECT_EQ(drawn(0.95f), (std::array<bool, 3>{true, true, true}));
}

TEST(Sampler, TheNucleusOfEqualsPrefersLowIds) {
  const std::vector<int> counts =
      Counts(Of({.temperature = 1, .top_p = 0.5f, .seed = 2}), {1, 1, 1, 1}, 1000);
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2] + counts[3], 0);
}

TEST(Sampler, TheSameSeedDrawsTheSame) {
  const std::vector<float> logits(50, 0.0f);
  Sampler a = Of({.temperature = 1, .seed = 9});
  Sampler b = Of({.temperature = 1, .seed = 9});
  Sampler c = Of({.temperature = 1, .seed = 10});
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const TokenId drawn = *a.Sample(logits);
    EXPECT_EQ(drawn, *b.Sample(logits));
    different += drawn != *c.Sample(logits) ? 1 : 0;
  }
  EXPECT_GT(different, 50);
}

TEST(Sampler, ATinyTemperatureIsGreedy) {
  Sampler sampler = Of({.temperature = std::numeric_limits<float>::denorm_min()});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*sampler.Sample(std::vector<float>{1, 1.001f, 1}), 1);
}

TEST(Sampler, OptionsOutOfRangeAreRefused) {
  for (float temperature : {-1.0f, kNan, kInf}) {
    EXPECT_EQ(Sampler::Create({.temperature = temperature}).status().code(),
              StatusCode::kInvalidArgument);
  }
  for (float top_p : {0.0f, -0.5f, 1.5f, kNan}) {
    EXPECT_EQ(Sampler::Create({.top_p = top_p}).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace quire::worker
