// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/fault_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace quire::torture {
namespace {

using std::chrono::seconds;

TEST(FaultScheduleTest, AllKindsComeOneAtATimeAndEndWithinTheRun) {
  const auto faults = ScheduleFaults(/*seed=*/7, seconds(600), /*nodes=*/3);
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
    EXPECT_GE(kinds.count(static_cast<ClusterFault>(kind)), 8u) << kind;
  }
}

TEST(FaultScheduleTest, TheSeedDecides) {
  EXPECT_EQ(ScheduleFaults(7, seconds(60), 3), ScheduleFaults(7, seconds(60), 3));
  EXPECT_NE(ScheduleFaults(7, seconds(60), 3), ScheduleFaults(8, seconds(60), 3));
  EXPECT_GE(ScheduleFaults(7, seconds(10), 3).size(), 3u);
  EXPECT_TRUE(ScheduleFaults(7, seconds(0), 3).empty());
}

}  // namespace
}  // namespace quire::torture
