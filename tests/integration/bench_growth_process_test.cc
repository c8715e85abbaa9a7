// SPDX-License-Identifier: Apache-2.0
//
// quire bench growth as a program, over a short document. A sequence outgrows its slots by two
// layers of four.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/bench_report.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::ExpectMachine;
using testing::ExpectPositive;
using testing::Figure;
using ::testing::HasSubstr;
using testing::KeysOf;
using testing::Part;

constexpr size_t kWindows = 8;

std::vector<double> Series(const json& way, const std::string& key) {
  auto series = way.value(key, std::vector<double>());
  EXPECT_EQ(series.size(), kWindows) << key;
  return series;
}

TEST(BenchGrowthProcessTest, LayersLeaveOneByOneWithinTheSlotsBesideTheRival) {
  const json report = testing::BenchReport({"growth", "--context", "512", "--growth", "256",
                                            "--window", "32", "--budget", "160", "--layers", "4"});
  const json ways = Part(report, "ways");
  ASSERT_THAT(KeysOf(ways), ElementsAre("all_at_once", "all_off", "layer_by_layer", "no_limit"));
  const std::vector<double> ours = Series(Part(ways, "layer_by_layer"), "offloaded_layers");
  EXPECT_TRUE(std::ranges::is_sorted(ours));
  EXPECT_EQ(ours.back(), 2);
  const std::vector<double> rival = Series(Part(ways, "all_at_once"), "offloaded_layers");
  EXPECT_EQ(rival.back(), 4);
  EXPECT_THAT(Series(Part(ways, "no_limit"), "offloaded_layers"), Each(0));
  EXPECT_THAT(Series(Part(ways, "all_off"), "offloaded_layers"), Each(4));
  for (const auto& [name, way] : ways.items()) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Series(way, "tokens_per_second"), Each(::testing::Gt(0)));
    EXPECT_LT(Figure(way, "largest_step_loss"), 1);
  }
  EXPECT_LE(Figure(report, "most_slot_bytes"), Figure(report, "slot_bytes"));
  EXPECT_EQ(Figure(report, "largest_step_loss"),
            Figure(Part(ways, "layer_by_layer"), "largest_step_loss"));
  EXPECT_EQ(Figure(report, "largest_step_loss_all_at_once"),
            Figure(Part(ways, "all_at_once"), "largest_step_loss"));
  ExpectPositive(report, {"vs_all_at_once", "slot_bytes"});
  ExpectMachine(report);
}

TEST(BenchGrowthProcessTest, WhatCannotBeMeasuredIsRefused) {
  const auto refusal = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"bench", "growth"});
    const testing::ChildResult result = testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", args);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    return result.err;
  };
  EXPECT_THAT(refusal({"--growth", "100", "--window", "64"}),
              HasSubstr("--growth is 100; give two windows of 64 or more"));
  EXPECT_THAT(refusal({"--context", "256", "--growth", "64", "--window", "32", "--slot-bytes",
                       "1KiB", "--budget", "160", "--layers", "2"}),
              HasSubstr("0 tokens fit"));
}

}  // namespace
}  // namespace quire
