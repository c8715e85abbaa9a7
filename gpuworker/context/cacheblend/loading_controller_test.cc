// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cacheblend/loading_controller.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire::worker {
namespace {

// 4096 tokens of a model of 8 billion weights, milliseconds of a layer: prefill takes 6.9. Rows of
// 16.8 MB load at 1, 5 and 25 GB/s.
constexpr double kPrefill = 6.9e-3;

TEST(LoadingControllerTest, SlowStorageIsNotReadAtAll) {
  const RatioChoice choice = ChooseRatio({.load = 16.8e-3, .prefill = kPrefill}, 0.15);
  EXPECT_FALSE(choice.loads);
  EXPECT_EQ(choice.ratio, 1);
}

TEST(LoadingControllerTest, TimeThatLoadingTakesIsSpentOnMoreRows) {
  const RatioChoice choice = ChooseRatio({.load = 3.4e-3, .prefill = kPrefill}, 0.15);
  EXPECT_TRUE(choice.loads);
  EXPECT_NEAR(choice.ratio, 0.49, 0.005);
}

TEST(LoadingControllerTest, FastStorageLeavesTheRatioThatTheAnswerNeeds) {
  const RatioChoice choice = ChooseRatio({.load = 0.7e-3, .prefill = kPrefill}, 0.15);
  EXPECT_TRUE(choice.loads);
  EXPECT_EQ(choice.ratio, 0.15);
  EXPECT_NEAR(ChooseRatio({.load = 0.7e-3, .prefill = kPrefill}, 0).ratio, 0.10, 0.005);
}

TEST(LoadingControllerTest, UnknownCostsChangeNothing) {
  for (const LayerCosts& costs :
       {LayerCosts{}, LayerCosts{.load = 1}, LayerCosts{.prefill = 1}, LayerCosts{NAN, NAN}}) {
    const RatioChoice choice = ChooseRatio(costs, 0.2);
    EXPECT_TRUE(choice.loads);
    EXPECT_EQ(choice.ratio, 0.2);
  }
}

TEST(LoadProbeTest, OneInSixteenPromptsThatNeedNoLoadHasOneAndComputesEverythingAllTheSame) {
  LoadProbe probe;
  const RatioChoice full{.ratio = 1, .loads = false};
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 1; i < LoadProbe::kEvery; ++i) EXPECT_FALSE(probe.Pass(full).loads);
    const RatioChoice probed = probe.Pass(full);
    EXPECT_TRUE(probed.loads);
    EXPECT_EQ(probed.ratio, 1);
  }
}

TEST(LoadProbeTest, ALoadThatWasChosenStartsTheCountAgain) {
  LoadProbe probe;
  for (uint32_t i = 1; i < LoadProbe::kEvery; ++i) probe.Pass({.ratio = 1, .loads = false});
  const RatioChoice chosen = probe.Pass({.ratio = 0.4});
  EXPECT_TRUE(chosen.loads);
  EXPECT_EQ(chosen.ratio, 0.4);
  EXPECT_FALSE(probe.Pass({.ratio = 1, .loads = false}).loads);
}

}  // namespace
}  // namespace quire::worker
