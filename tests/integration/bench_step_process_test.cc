// SPDX-License-Identifier: Apache-2.0
//
// quire bench step as a program, on the emulated device. Its figures are counts, which are the same
// on every machine.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/bench_report.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ExpectMachine;
using testing::Figure;
using testing::Part;

constexpr double kMostGrowth = 1.05;
constexpr int kLayers = 1;

// step_cost_test counts steps whose tokens are chosen on the device.
TEST(BenchStepProcessTest, AStepOfSixteenSequencesCostsWhatOneDoes) {
  const json report =
      testing::BenchReport({"step", "--layers", std::to_string(kLayers), "--temperature", "0.8"});
  EXPECT_LE(Figure(report, "launches_growth_1_to_16"), kMostGrowth);
  EXPECT_LE(Figure(report, "host_waits_growth_1_to_16"), kMostGrowth);
  const json policies = Part(report, "policies");
  for (const std::string batch : {"1", "4", "16"}) {
    SCOPED_TRACE(batch);
    const json freekv = Part(policies, "freekv"), specontext = Part(policies, "specontext");
    EXPECT_GT(Figure(Part(freekv, "launches_per_step"), batch), kLayers);
    EXPECT_GT(Figure(Part(specontext, "launches_per_step"), batch), kLayers);
    EXPECT_LE(Figure(Part(freekv, "host_waits_per_step"), batch), 1 + kLayers);
    EXPECT_EQ(Figure(Part(specontext, "host_waits_per_step"), batch), 1);
  }
  EXPECT_EQ(report.at("device"), "emulated");
  ExpectMachine(report);
}

}  // namespace
}  // namespace quire
