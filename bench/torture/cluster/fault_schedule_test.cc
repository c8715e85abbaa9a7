// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/fault_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace quire::torture {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Each;
using ::testing::IsSupersetOf;
using ::testing::Not;

SchedulePlan PlanOf(uint64_t seed, int length_s) {
  return {.seed = seed,
          .run = seconds(length_s),
          .nodes = 3,
          .kinds = FaultsOn(ClusterNetwork::kNamespaces)};
}

TEST(FaultScheduleTest, AllKindsComeOneAtATimeAndEndWithinTheRun) {
  const auto faults = ScheduleFaults(PlanOf(/*seed=*/7, 600));
  std::multiset<ClusterFault> kinds;
  std::set<uint32_t> nodes;
  Duration free_from = {};
  for (const ScheduledFault& fault : faults) {
    EXPECT_GE(fault.start, free_from);
    free_from = fault.start + fault.length;
    kinds.insert(fault.kind);
    nodes.insert(fault.node);
  }
  EXPECT_LE(free_from, seconds(600));
  EXPECT_EQ(nodes, (std::set<uint32_t>{0, 1, 2}));
  for (int kind = 0; kind < kNumClusterFaults; ++kind) {
    EXPECT_GE(kinds.count(static_cast<ClusterFault>(kind)), 5u) << kind;
  }
}

TEST(FaultScheduleTest, OneNodeHasTheBadDisk) {
  std::set<uint32_t> bad_disks;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::set<uint32_t> harmed;
    for (const ScheduledFault& fault : ScheduleFaults(PlanOf(seed, 300))) {
      if (HarmsDisk(fault.kind)) harmed.insert(fault.node);
    }
    EXPECT_EQ(harmed.size(), 1u) << "seed " << seed;
    bad_disks.merge(harmed);
  }
  EXPECT_EQ(bad_disks.size(), 3u) << "which one follows from the seed";
}

TEST(FaultScheduleTest, TheSeedDecides) {
  EXPECT_EQ(ScheduleFaults(PlanOf(7, 60)), ScheduleFaults(PlanOf(7, 60)));
  EXPECT_NE(ScheduleFaults(PlanOf(7, 60)), ScheduleFaults(PlanOf(8, 60)));
  EXPECT_GE(ScheduleFaults(PlanOf(7, 10)).size(), 3u);
  EXPECT_TRUE(ScheduleFaults(PlanOf(7, 0)).empty());
}

TEST(FaultScheduleTest, OnlyTheGivenKindsCome) {
  SchedulePlan plan = PlanOf(7, 60);
  plan.kinds = {ClusterFault::kLoss};
  const auto faults = ScheduleFaults(plan);
  EXPECT_GE(faults.size(), 4u);
  EXPECT_THAT(faults, Each(::testing::Field(&ScheduledFault::kind, ClusterFault::kLoss)));
}

TEST(ClusterFaultTest, EachHasItsName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < kNumClusterFaults; ++kind) {
    const auto fault = static_cast<ClusterFault>(kind);
    EXPECT_EQ(FaultNamed(Name(fault)), fault);
    names.insert(Name(fault));
  }
  EXPECT_EQ(names.size(), size_t{kNumClusterFaults});
  EXPECT_EQ(FaultNamed("flood"), std::nullopt);
}

TEST(ClusterFaultTest, LoopbackHasNoFaultsThatNeedAKernel) {
  const auto loopback = FaultsOn(ClusterNetwork::kLoopback);
  EXPECT_THAT(FaultsOn(ClusterNetwork::kNamespaces), IsSupersetOf(loopback));
  EXPECT_EQ(FaultsOn(ClusterNetwork::kNamespaces).size(), size_t{kNumClusterFaults});
  EXPECT_THAT(loopback, Contains(ClusterFault::kPartition));
  EXPECT_THAT(loopback, Not(Contains(ClusterFault::kOneWay)));
  EXPECT_THAT(loopback, Not(Contains(ClusterFault::kDiskError)));
}

}  // namespace
}  // namespace quire::torture
