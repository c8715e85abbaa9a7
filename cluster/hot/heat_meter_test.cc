// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/heat_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire::cluster {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);

class HeatMeterTest : public ::testing::Test {
 protected:
  /// `reads` of each second, for `seconds`.
  void Read(const std::string& document, uint64_t reads, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ += std::chrono::seconds(1);
      const std::vector<DocumentReads> counted = {{.name = NameOf(document), .reads = reads}};
      meter_.Add(reads > 0 ? std::span(counted) : std::span<const DocumentReads>(), now_, kWindow);
    }
  }
  static ReadName NameOf(const std::string& document) { return {"t", "books", document}; }
  double RateOf(const std::string& document) const {
    const auto found = meter_.rates().find(NameOf(document));
    return found == meter_.rates().end() ? 0 : found->second;
  }

  HeatMeter meter_;
  TimePoint now_{};
};

TEST_F(HeatMeterTest, ARateIsReachedWithinSomeWindowsAndForgottenAfterwards) {
  Read("a", 100, 50);
  EXPECT_NEAR(RateOf("a"), 100, 2);
  Read("b", 10, 10);
  EXPECT_NEAR(RateOf("a"), 37, 2) << "a window ago";
  EXPECT_GT(RateOf("b"), 5);
  Read("a", 0, 200);
  EXPECT_TRUE(meter_.rates().empty());
}

TEST_F(HeatMeterTest, ABurstIsNoRate) {
  Read("a", 0, 1);
  Read("a", 1000, 1);
  EXPECT_LT(RateOf("a"), 100);
}

TEST_F(HeatMeterTest, WhatCameBeforeTheFirstCallHasNoTime) {
  Read("a", 1'000'000, 1);
  EXPECT_EQ(RateOf("a"), 0);
}

TEST_F(HeatMeterTest, SlowAndQuickCallsMeasureTheSame) {
  HeatMeter slow;
  slow.Add({}, now_, kWindow);
  for (int i = 0; i < 20; ++i) {
    Read("a", 100, 5);
    const std::vector<DocumentReads> counted = {{.name = NameOf("a"), .reads = 500}};
    slow.Add(counted, now_, kWindow);
  }
  EXPECT_NEAR(slow.rates().at(NameOf("a")), RateOf("a"), 3);
}

}  // namespace
}  // namespace quire::cluster
