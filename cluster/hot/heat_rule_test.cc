// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/heat_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/base/random.h"

namespace quire::cluster {
namespace {

/// A document whose readers spread over its owners, each a little uneven.
struct Cluster {
  uint32_t replicas = 1, nodes = 1;
  HeatLimits limits;
  uint32_t extra = 0;
  uint32_t added = 0, cooled = 0;

  uint32_t owners() const { return std::min(replicas + extra, nodes); }
  /// Every owner decides once; the extra owners go when none keeps them.
  void Round(double reads_per_second, double unevenness, SeededRandom& random) {
    bool kept = false, adds = false;
    for (uint32_t owner = 0; owner < owners(); ++owner) {
      const double factor = 1 + unevenness * (2 * random.Uniform() - 1);
      const HeatStep step = StepOf({.reads_per_second = reads_per_second / owners() * factor,
                                    .owners = owners(),
                                    .extra = extra,
                                    .most_owners = nodes},
                                   limits);
      kept = kept || step != HeatStep::kNone;
      adds = adds || step == HeatStep::kAdd;
    }
    if (adds) {
      ++extra;
      ++added;
    } else if (extra > 0 && !kept) {
      extra = 0;
      ++cooled;
    }
  }
};

Cluster AnyCluster(SeededRandom& random) {
  Cluster cluster;
  cluster.nodes = 1 + static_cast<uint32_t>(random.Below(12));
  cluster.replicas = 1 + static_cast<uint32_t>(random.Below(std::min(cluster.nodes, 4u)));
  cluster.limits = {.reads_per_second = 1 + static_cast<uint32_t>(random.Below(5000)),
                    .most_extra = static_cast<uint32_t>(random.Below(9))};
  return cluster;
}

TEST(HeatRuleTest, ASteadyLoadSettlesAndNothingComesAndGoes) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    Cluster cluster = AnyCluster(random);
    const double load = cluster.limits.reads_per_second * 20 * random.Uniform();
    for (int round = 0; round < 50; ++round) cluster.Round(load, 0.2, random);
    EXPECT_EQ(cluster.cooled, 0u);
    EXPECT_EQ(cluster.added, cluster.extra);
    EXPECT_LE(cluster.extra, cluster.limits.most_extra);
    EXPECT_LE(cluster.replicas + cluster.extra, cluster.nodes);
    const bool at_the_bound = cluster.extra == cluster.limits.most_extra ||
                              cluster.replicas + cluster.extra == cluster.nodes;
    if (!at_the_bound) {
      EXPECT_LE(load / cluster.owners(), cluster.limits.reads_per_second);
    }
    if (cluster.extra > 0) {
      EXPECT_GT(load * 1.2 / (cluster.owners() - 1), cluster.limits.reads_per_second)
          << "one owner less would be too few";
    }
  }
}

TEST(HeatRuleTest, WhatCoolsLosesAllExtraOwners) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    Cluster cluster = AnyCluster(random);
    const double limit = cluster.limits.reads_per_second;
    for (int round = 0; round < 20; ++round) {
      cluster.Round(limit * cluster.nodes * 2, 0.2, random);
    }
    for (int round = 0; round < 2; ++round) {
      cluster.Round(limit * cluster.replicas * 0.4, 0.2, random);
    }
    EXPECT_EQ(cluster.extra, 0u);
  }
}

TEST(HeatRuleTest, OneOwnerThatIsReadMuchIsEnough) {
  const HeatLimits limits = {.reads_per_second = 100, .most_extra = 2};
  EXPECT_EQ(StepOf({.reads_per_second = 101, .owners = 2, .most_owners = 5}, limits),
            HeatStep::kAdd);
  EXPECT_EQ(StepOf({.reads_per_second = 101, .owners = 4, .extra = 2, .most_owners = 5}, limits),
            HeatStep::kKeep);
  EXPECT_EQ(StepOf({.reads_per_second = 101, .owners = 3, .extra = 1, .most_owners = 3}, limits),
            HeatStep::kKeep)
      << "there is no other node";
  EXPECT_EQ(StepOf({.reads_per_second = 26, .owners = 4, .extra = 2, .most_owners = 5}, limits),
            HeatStep::kKeep)
      << "without them it would be 52";
  EXPECT_EQ(StepOf({.reads_per_second = 24, .owners = 4, .extra = 2, .most_owners = 5}, limits),
            HeatStep::kNone);
}

TEST(HeatRuleTest, WithoutALimitNothingIsHot) {
  EXPECT_EQ(StepOf({.reads_per_second = 1e9, .owners = 2, .extra = 1, .most_owners = 5},
                   {.reads_per_second = 0, .most_extra = 8}),
            HeatStep::kNone);
}

}  // namespace
}  // namespace quire::cluster
