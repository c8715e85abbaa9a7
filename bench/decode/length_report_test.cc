// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/length_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::bench {
namespace {

constexpr uint32_t kKi = 1024;

LengthCost CostOf(uint32_t tokens, double step_ms, double scoring_ms,
                  const std::string& way = "freekv", uint32_t sequences = 1) {
  return {.context_tokens = tokens,
          .sequences = sequences,
          .way = way,
          .step_ms = step_ms,
          .scoring_ms = scoring_ms,
          .worker_bytes = uint64_t{tokens} * 512,
          .server_bytes = uint64_t{tokens} * 4096,
          .steps = 8};
}

TEST(ScoringGrowthTest, TheLengthAtWhichScoringIsHalfAStepLiesOnALine) {
  // Steps of 10 ms and a third of each Ki; scoring a fourth of a ms for each Ki.
  const std::vector<LengthCost> costs = {CostOf(24 * kKi, 18, 6), CostOf(96 * kKi, 42, 24)};
  const ScoringGrowth growth = GrowthOf(costs);
  EXPECT_DOUBLE_EQ(growth.relative, 1);
  EXPECT_DOUBLE_EQ(growth.largest_share, 24.0 / 42);
  // 10 + n / 3 is twice n / 4.
  ASSERT_TRUE(growth.half_of_step_tokens);
  EXPECT_NEAR(*growth.half_of_step_tokens, 60 * kKi, 1);
}

TEST(ScoringGrowthTest, ShortDocumentsAreNotScoredForLong) {
  const std::vector<LengthCost> costs = {CostOf(32 * kKi, 20, 1), CostOf(64 * kKi, 20, 3)};
  const ScoringGrowth growth = GrowthOf(costs);
  EXPECT_DOUBLE_EQ(growth.relative, 1.5);
  EXPECT_FALSE(growth.half_of_step_tokens);
}

TEST(ScoringGrowthTest, ScoringThatAlwaysTakesHalfDoesSoFromTheFirstLengthOn) {
  const std::vector<LengthCost> costs = {CostOf(32 * kKi, 10, 6), CostOf(64 * kKi, 20, 13)};
  EXPECT_EQ(GrowthOf(costs).half_of_step_tokens, 32.0 * kKi);
}

TEST(ScoringGrowthTest, AShareThatFallsAgainDoesNotCount) {
  const std::vector<LengthCost> costs = {CostOf(32 * kKi, 10, 6), CostOf(64 * kKi, 20, 6)};
  EXPECT_FALSE(GrowthOf(costs).half_of_step_tokens);
}

LengthCosts SomeCosts() {
  LengthCosts costs;
  costs.spec.num_layers = 4;
  costs.spec.num_query_heads = 8;
  costs.spec.num_kv_heads = 2;
  costs.spec.head_dim = 128;
  costs.costs = {CostOf(32 * kKi, 30, 0, "full"), CostOf(32 * kKi, 10, 1),
                 CostOf(32 * kKi, 32, 4, "freekv", 4), CostOf(64 * kKi, 60, 0, "full"),
                 CostOf(64 * kKi, 12, 2)};
  costs.left_out = {{.context_tokens = 64 * kKi, .sequences = 4, .way = "full", .why = "too much"}};
  costs.agents = {CostOf(kAgentContextTokens, 14, 3)};
  costs.agents.front().open_seconds = 2;
  costs.agents.front().decode_seconds = 6;
  return costs;
}

TEST(LengthReportTest, HeadlinesAreOfOneSequenceAtTheLongestCommonLength) {
  const cli::Json json = LengthJson(SomeCosts());
  EXPECT_DOUBLE_EQ(json.at("freekv_vs_full"), 5);
  EXPECT_EQ(json.at("vs_full_tokens"), 64 * kKi);
  EXPECT_DOUBLE_EQ(json.at("full_step_growth"), 2);
  EXPECT_DOUBLE_EQ(json.at("freekv_step_growth"), 1.2);
  EXPECT_DOUBLE_EQ(json.at("scoring").at("freekv").at("batch_1").at("growth_over_linear"), 1);
  EXPECT_TRUE(json.at("scoring").at("freekv").at("batch_4").at("half_of_step_tokens").is_null());
  EXPECT_FALSE(json.at("scoring").contains("full"));
}

TEST(LengthReportTest, RowsHaveMemoryByTokenAndWhatWasLeftOutSaysWhy) {
  const cli::Json json = LengthJson(SomeCosts());
  ASSERT_EQ(json.at("by_length").size(), 5u);
  EXPECT_DOUBLE_EQ(json.at("by_length").at(1).at("worker_bytes_per_token"), 512);
  EXPECT_DOUBLE_EQ(json.at("by_length").at(1).at("server_bytes_per_token"), 4096);
  EXPECT_EQ(json.at("left_out").at(0).at("why"), "too much");
  EXPECT_DOUBLE_EQ(json.at("agents").at(0).at("seconds"), 8);
}

TEST(LengthReportTest, AReportIsReadBackAndAddedToAnother) {
  const StatusOr<LengthCosts> earlier = LengthCostsOf(LengthJson(SomeCosts()));
  ASSERT_TRUE(earlier.ok()) << earlier.status();
  EXPECT_EQ(LengthJson(*earlier), LengthJson(SomeCosts()));
  LengthCosts more = SomeCosts();
  more.agents.clear();
  more.left_out.clear();
  more.costs = {CostOf(64 * kKi, 14, 2), CostOf(128 * kKi, 20, 4)};
  ASSERT_TRUE(AddEarlier(*earlier, &more).ok());
  ASSERT_EQ(more.costs.size(), 6u);
  EXPECT_EQ(more.costs.front().context_tokens, 32 * kKi);
  EXPECT_EQ(more.costs.back().context_tokens, 128 * kKi);
  EXPECT_EQ(more.costs.at(3).step_ms, 14) << "what is measured anew counts";
  EXPECT_EQ(more.agents.size(), 1u);
  EXPECT_EQ(more.left_out.size(), 1u);
  more.tau = 0.5f;
  EXPECT_EQ(AddEarlier(*earlier, &more).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(LengthCostsOf(cli::Json::object()).status().code(), StatusCode::kInvalidArgument);
}

TEST(LengthReportTest, ThePlotHasSteps_AndScoringOfOneSequence_ByToken) {
  const cli::ScatterPlot plot = LengthPlot(SomeCosts());
  std::vector<std::string> names;
  for (const cli::PlotLine& line : plot.lines) names.push_back(line.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"freekv", "freekv, scoring", "freekv, batch 4", "full"}));
  EXPECT_DOUBLE_EQ(plot.lines[2].points.front().y, 8) << "a step is of four tokens";
}

}  // namespace
}  // namespace quire::bench
