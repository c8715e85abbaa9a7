// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_costs.h"

#include <gtest/gtest.h>

namespace quire::worker {
namespace {

OfTiers<uint64_t> Bytes(uint64_t dram, uint64_t ssd) {
  OfTiers<uint64_t> bytes;
  bytes[SourceTier::kDram] = dram;
  bytes[SourceTier::kSsd] = ssd;
  return bytes;
}

OfTiers<TierLoad> Load(SourceTier tier, uint64_t bytes, double seconds) {
  OfTiers<TierLoad> loads;
  loads[tier] = {bytes, seconds};
  return loads;
}

TEST(ReuseCostsTest, WhatWasNotMeasuredIsNotKnown) {
  ReuseCosts costs;
  EXPECT_EQ(costs.OfLayer(Bytes(100, 0), 10).load, 0);
  EXPECT_EQ(costs.OfLayer(Bytes(100, 0), 10).prefill, 0);
  costs.AddLoads(Load(SourceTier::kDram, 1000, 1));
  EXPECT_DOUBLE_EQ(costs.OfLayer(Bytes(100, 0), 10).load, 0.1);
  EXPECT_EQ(costs.OfLayer(Bytes(100, 1), 10).load, 0) << "nothing came from the SSD yet";
}

TEST(ReuseCostsTest, TiersAddUp) {
  ReuseCosts costs;
  costs.AddLoads(Load(SourceTier::kDram, 1000, 1));
  costs.AddLoads(Load(SourceTier::kSsd, 1000, 10));
  costs.AddPrefill(40, 2);
  EXPECT_DOUBLE_EQ(costs.OfLayer(Bytes(100, 200), 10).load, 0.1 + 2);
  EXPECT_DOUBLE_EQ(costs.OfLayer(Bytes(100, 200), 10).prefill, 0.5);
}

TEST(ReuseCostsTest, NewMeasurementsMoveTheMean) {
  ReuseCosts costs;
  costs.AddPrefill(1, 1);
  costs.AddPrefill(1, 2);
  EXPECT_DOUBLE_EQ(costs.OfLayer(Bytes(0, 0), 1).prefill, 1.25);
  for (int i = 0; i < 50; ++i) costs.AddPrefill(1, 2);
  EXPECT_NEAR(costs.OfLayer(Bytes(0, 0), 1).prefill, 2, 1e-3);
}

}  // namespace
}  // namespace quire::worker
