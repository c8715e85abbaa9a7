// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/pauta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// `count` samples of 1, of which the one at `index` is `value`.
std::vector<double> OnesBut(size_t count, size_t index, double value) {
  std::vector<double> samples(count, 1);
  samples[index] = value;
  return samples;
}

// Worked example of the formulas in pauta.h.
TEST(PautaTest, WorkedReach) {
  EXPECT_NEAR(PautaReach(8), 2.47, .005);
  EXPECT_NEAR(PautaReach(10), 2.85, .005);
  EXPECT_NEAR(PautaReach(11), 3.02, .005);
  EXPECT_NEAR(PautaReach(16), 3.75, .005);
  EXPECT_NEAR(PautaReach(32), 5.48, .005);
  EXPECT_EQ(PautaReach(1), 0);
  EXPECT_EQ(PautaReach(0), 0);
}

// One sample far from others that are equal is as far out as any can be.
TEST(PautaTest, TheReachIsThatOfTheLoneliestSample) {
  for (const size_t n : {2, 8, 10, 11, 16, 32}) {
    const std::vector<double> samples = OnesBut(n, 0, 0);
    const double count = static_cast<double>(n), mean = (count - 1) / count;
    double squares = 0;
    for (const double sample : samples) squares += (sample - mean) * (sample - mean);
    EXPECT_NEAR(mean / std::sqrt(squares / (count - 1)), PautaReach(n), 1e-12) << n;
    EXPECT_NEAR(mean / std::sqrt(squares / count), std::sqrt(count - 1), 1e-12) << n;
  }
}

TEST(PautaTest, FromElevenSamplesOnOneCanBeOut) {
  EXPECT_THAT(PautaOutliers(OnesBut(11, 4, 0.5)), ElementsAre(4));
  EXPECT_THAT(PautaOutliers(OnesBut(40, 39, -2)), ElementsAre(39));
}

TEST(PautaTest, OnlyLowSamplesAreOut) {
  EXPECT_THAT(PautaOutliers(OnesBut(40, 7, 100)), IsEmpty());
  EXPECT_THAT(PautaOutliers(std::vector<double>(40, 0.1)), IsEmpty());
  EXPECT_THAT(PautaOutliers(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), IsEmpty());
}

// k of n equal samples are sqrt((n-k)/k) deviations below the mean: 5.4 for 2 of 60, 2.8 for 7.
TEST(PautaTest, OutliersAscendAndCountInTheDeviation) {
  std::vector<double> samples = OnesBut(60, 50, 0);
  samples[20] = 0;
  EXPECT_THAT(PautaOutliers(samples), ElementsAre(20, 50));
  for (const size_t i : {0, 1, 2, 3, 4}) samples[i] = 0;
  EXPECT_THAT(PautaOutliers(samples), IsEmpty());
}

// The 0 is 3.09 deviations of the population below the mean and 2.95 of the sample.
TEST(PautaTest, TheDeviationIsThePopulations) {
  std::vector<double> samples = OnesBut(11, 0, 0);
  samples[1] = 0.8;
  EXPECT_THAT(PautaOutliers(samples), ElementsAre(0));
}

TEST(PautaTest, OfTenSamplesOrFewerTheLeastIsTaken) {
  EXPECT_THAT(PautaOutliers(OnesBut(10, 6, 0.9)), ElementsAre(6));
  EXPECT_THAT(PautaOutliers(std::vector<double>{3, 1, 1}), ElementsAre(1));
  EXPECT_THAT(PautaOutliers(std::vector<double>{5}), ElementsAre(0));
  EXPECT_THAT(PautaOutliers({}), IsEmpty());
}

TEST(PautaTest, WhatIsNotFiniteIsNoSample) {
  std::vector<double> samples(30, kInfinity);
  EXPECT_THAT(PautaOutliers(samples), IsEmpty());
  samples[3] = std::nan("");
  samples[9] = 2;
  samples[8] = 3;
  EXPECT_THAT(PautaOutliers(samples), ElementsAre(9));
  samples = OnesBut(40, 30, 0);
  samples[0] = kInfinity;
  samples[1] = -kInfinity;
  EXPECT_THAT(PautaOutliers(samples), ElementsAre(30));
}

}  // namespace
}  // namespace quire::worker
