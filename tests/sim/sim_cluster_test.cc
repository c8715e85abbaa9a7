// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kit/effort.h"
#include "tests/kit/paths.h"
#include "tests/sim/sim_scenario.h"

namespace quire::sim {
namespace {

using quire::testing::Effort;
using ::testing::IsEmpty;

constexpr uint64_t kRuns = Effort(200, 6), kHotRuns = Effort(5, 2);

const std::vector<SimScenario>& Scenarios() {
  static const std::vector<SimScenario> scenarios =
      ReadScenarios(QUIRE_SOURCE_DIR "/tests/sim/scenarios").value();
  return scenarios;
}

TEST(SimClusterTest, PromisesAreKeptInEveryScenario) {
  ASSERT_GE(Scenarios().size(), 6u);
  uint64_t registered = 0, faults = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    const SimScenario& scenario = Scenarios()[seed % Scenarios().size()];
    const SimReport report = RunSimulation(scenario, seed);
    EXPECT_THAT(report.broken, IsEmpty()) << "repeat with: ./dev sim --scenario " << scenario.name
                                          << " --first-seed " << seed << " --seeds 1";
    registered += report.registered;
    faults += report.faults;
  }
  EXPECT_GT(registered, 20 * kRuns);
  EXPECT_GT(faults, 3 * kRuns);
}

TEST(SimClusterTest, DocumentsThatAreReadMuchAreReadAtMoreNodesUntilTheyCool) {
  const auto hot = std::ranges::find(Scenarios(), "hot", &SimScenario::name);
  ASSERT_NE(hot, Scenarios().end());
  uint64_t read_at_extra = 0;
  for (uint64_t seed = 1; seed <= kHotRuns; ++seed) {
    const SimReport report = RunSimulation(*hot, seed);
    EXPECT_THAT(report.broken, IsEmpty())
        << "repeat with: ./dev sim --scenario hot --first-seed " << seed << " --seeds 1";
    read_at_extra += report.read_at_extra;
  }
  EXPECT_GT(read_at_extra, 10 * kHotRuns);
}

TEST(SimClusterTest, TheSameSeedGivesTheSameRun) {
  const SimScenario& scenario = Scenarios().front();
  const SimReport one = RunSimulation(scenario, 4711);
  const SimReport same = RunSimulation(scenario, 4711);
  const SimReport other = RunSimulation(scenario, 4712);
  EXPECT_EQ(one.fingerprint, same.fingerprint);
  EXPECT_EQ(one.events, same.events);
  EXPECT_NE(one.fingerprint, other.fingerprint);
}

TEST(SimScenarioTest, AScenarioIsReadAndItsMistakesAreNamed) {
  const auto scenario = ParseScenario(
      "x", R"({"nodes": 7, "faults": [{"kind": "crash", "every_s": 2.5}, {"kind": "join"}]})");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->nodes, 7u);
  EXPECT_EQ(scenario->faults[0].every_s, 2.5);
  EXPECT_EQ(scenario->faults[1].kind, SimFaultKind::kJoin);
  for (const char* const bad : {"", "[]", R"({"nods": 1})", R"({"nodes": "7"})",
                                R"({"faults": [{"kind": "flood"}]})", R"({"faults": [3]})"}) {
    EXPECT_TRUE(IsInvalidArgument(ParseScenario("x", bad).status())) << bad;
  }
}

}  // namespace
}  // namespace quire::sim
