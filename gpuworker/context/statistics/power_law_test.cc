// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/power_law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace quire::worker {
namespace {

/// y at distances 1 ... count.
std::vector<DistantAttention> Points(uint32_t count, const std::function<double(uint32_t)>& y) {
  std::vector<DistantAttention> points;
  for (uint32_t x = 1; x <= count; ++x) points.push_back({x, static_cast<float>(y(x))});
  return points;
}

void ExpectUnimportant(const std::vector<DistantAttention>& points) {
  const PowerLaw law = FitPowerLaw(points);
  EXPECT_EQ(law.exponent, std::numeric_limits<double>::infinity());
  EXPECT_EQ(law.coefficient, 0);
}

// Worked example of the formulas in power_law.h.
TEST(PowerLawTest, WorkedFit) {
  const PowerLaw law = FitPowerLaw(
      Points(64, [](uint32_t x) { return 0.2 * std::pow(x, -0.7) * (1 + 0.05 * std::sin(x)); }));
  EXPECT_NEAR(law.exponent, .7031, 5e-5);
  EXPECT_NEAR(law.coefficient, .2020, 5e-5);
}

TEST(PowerLawTest, ALawIsFoundAgain) {
  const PowerLaw law = FitPowerLaw(Points(8, [](uint32_t x) { return 0.5 * std::pow(x, -1.25); }));
  EXPECT_NEAR(law.exponent, 1.25, 1e-6);
  EXPECT_NEAR(law.coefficient, 0.5, 1e-6);
}

TEST(PowerLawTest, AttentionThatDoesNotFallHasAnExponentOfZeroOrLess) {
  EXPECT_NEAR(FitPowerLaw(Points(20, [](uint32_t) { return 0.1; })).exponent, 0, 1e-6);
  EXPECT_NEAR(FitPowerLaw(Points(20, [](uint32_t x) { return 1e-4 * x; })).exponent, -1, 1e-5);
}

TEST(PowerLawTest, EightPointsAreNeeded) {
  const auto y = [](uint32_t x) { return 1.0 / x; };
  ExpectUnimportant({});
  ExpectUnimportant(Points(7, y));
  EXPECT_NEAR(FitPowerLaw(Points(8, y)).exponent, 1, 1e-6);
}

TEST(PowerLawTest, TheTokenItselfIsNoPoint) {
  auto points = Points(7, [](uint32_t x) { return 1.0 / x; });
  points.push_back({0, 1});
  ExpectUnimportant(points);
  points.push_back({8, 1.0f / 8});
  EXPECT_NEAR(FitPowerLaw(points).exponent, 1, 1e-6);
}

// x^-4 falls through the floor at 100.
TEST(PowerLawTest, AttentionIsFloored) {
  const auto falling = [](uint32_t x) { return std::pow(x, -4.0); };
  const auto floored = [&](uint32_t x) { return std::max(1e-8, falling(x)); };
  const PowerLaw law = FitPowerLaw(Points(400, falling));
  EXPECT_NEAR(law.exponent, FitPowerLaw(Points(400, floored)).exponent, 1e-6);
  EXPECT_LT(law.exponent, 3);
  auto points = Points(20, falling);
  const double with_zero = [&] {
    points[10].attention = 0;
    return FitPowerLaw(points).exponent;
  }();
  points[10].attention = -1;
  EXPECT_EQ(FitPowerLaw(points).exponent, with_zero);
  points[10].attention = std::nanf("");
  EXPECT_EQ(FitPowerLaw(points).exponent, with_zero);
}

TEST(PowerLawTest, WhatNobodyAttendsToIsUnimportant) {
  ExpectUnimportant(Points(50, [](uint32_t) { return 0.0; }));
  ExpectUnimportant(Points(50, [](uint32_t) { return 1e-9; }));
}

TEST(PowerLawTest, OneDistanceHasNoLaw) {
  ExpectUnimportant(std::vector<DistantAttention>(20, {.distance = 3, .attention = .1f}));
}

}  // namespace
}  // namespace quire::worker
