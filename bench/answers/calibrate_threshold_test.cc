// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/calibrate_threshold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace quire::bench {
namespace {

/// Shares for cosines that are evenly spread from `least` to `greatest`.
CorrectedShare Spread(double least, double greatest, std::vector<float>* tried = nullptr) {
  return [=](float tau) -> StatusOr<double> {
    if (tried != nullptr) tried->push_back(tau);
    return std::clamp((tau - least) / (greatest - least), 0.0, 1.0);
  };
}

TEST(CalibrateThresholdTest, FindsWhereTheWantedShareIsCorrected) {
  // The published threshold corrects too many, too few, or all; cosines may be negative.
  for (const auto& [least, greatest] :
       {std::pair{0.3, 0.9}, {0.75, 1.0}, {-0.9, -0.1}, {-1., 1.}}) {
    SCOPED_TRACE(least);
    const auto tau = CalibrateThreshold(0.138, Spread(least, greatest));
    ASSERT_TRUE(tau.ok()) << tau.status();
    const double right = least + 0.138 * (greatest - least);
    EXPECT_LE(*tau, right);
    EXPECT_NEAR(*tau, right, 1.8 / 128);
  }
}

TEST(CalibrateThresholdTest, TriesEightFromThePublishedOneOn) {
  std::vector<float> tried;
  ASSERT_TRUE(CalibrateThreshold(0.5, Spread(0, 1, &tried)).ok());
  EXPECT_EQ(tried.size(), 8u);
  EXPECT_EQ(tried.front(), 0.8f);
}

TEST(CalibrateThresholdTest, WhatCannotBeMeasuredIsAnError) {
  const auto tau =
      CalibrateThreshold(0.138, [](float) -> StatusOr<double> { return Unavailable("no server"); });
  EXPECT_EQ(tau.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quire::bench
