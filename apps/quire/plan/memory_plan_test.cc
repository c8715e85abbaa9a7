// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/plan/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/kit/paths.h"

namespace quire::cli {
namespace {

using ::testing::HasSubstr;

PlanArgs Llama(uint32_t requests) {
  PlanArgs args;
  args.requests = requests;
  return args;
}

std::string Error(const PlanArgs& args) {
  const auto plan = MakePlan(args);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(MemoryPlanTest, JsonHasEveryThreshold) {
  const auto plan = MakePlan(Llama(16));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Json json = PlanJson(*plan);
  EXPECT_EQ(json.at("s0"), 26781);
  EXPECT_EQ(json.at("s16"), 45625);
  EXPECT_EQ(json.at("s32"), 185072);
  EXPECT_FALSE(json.contains("s33"));
  EXPECT_FALSE(json.contains("decode"));
}

TEST(MemoryPlanTest, PeopleSeeThresholdsAndThePlot) {
  PlanArgs args = Llama(16);
  args.prompts = {26000, 26000};
  args.generate = 1000;
  const auto plan = MakePlan(args);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::ostringstream out;
  PrintPlan(*plan, out);
  for (const char* part :
       {"s16 = 45,625", "16 of 32", "16-31", "layers on the device", "# planned", ". all at once",
        "The model itself ends at 131,072 positions", "request 1", "1,000 steps, 2 requests"}) {
    EXPECT_THAT(out.str(), HasSubstr(part));
  }
}

TEST(MemoryPlanTest, ThePlotFallsByALayerAtEveryThreshold) {
  const auto plan = MakePlan(Llama(4));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ScatterPlot plot = PlanPlot(*plan);
  ASSERT_EQ(plot.lines.size(), 2u);
  const auto& points = plot.lines[0].points;
  ASSERT_EQ(points.size(), 2u + 2 * 32);
  EXPECT_EQ(points[1].x, 107124);
  EXPECT_EQ(points[1].y, 32);
  EXPECT_EQ(points[2].x, 107124);
  EXPECT_EQ(points[2].y, 31);
  EXPECT_EQ(points.back().x, 779612);
  EXPECT_EQ(points.back().y, 0);
}

TEST(MemoryPlanTest, AConfigIsRead) {
  PlanArgs args = Llama(4);
  args.model = QUIRE_BUNDLED_MODEL;
  args.device_bytes = 16 << 20;
  args.budget_tokens = 256;
  const auto directory = MakePlan(args);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(directory->model.num_layers(), 4u);
  args.model += "/config.json";
  EXPECT_EQ(MakePlan(args)->model.thresholds(), directory->model.thresholds());
}

TEST(MemoryPlanTest, APlanThatDoesNotFitSaysWhatWould) {
  PlanArgs args = Llama(32);
  args.context_tokens = 100'000;
  EXPECT_THAT(Error(args),
              HasSubstr("32 requests of 100000 tokens do not fit in 80.0 GiB even with "
                        "every layer off the device; what would: --gpu-mem "));
  EXPECT_THAT(Error(args), HasSubstr("GiB, or --requests 28, or --context 85982"));
  args = Llama(1);
  args.device_bytes = uint64_t{8} << 30;
  EXPECT_THAT(Error(args), ::testing::EndsWith("what would: --gpu-mem 20GiB"));
}

TEST(MemoryPlanTest, LengthsBeyondTheModelAndUnknownModelsAreRefused) {
  PlanArgs args = Llama(1);
  args.context_tokens = 131073;
  EXPECT_THAT(Error(args), HasSubstr("llama-3.1-8b has 131072 positions, and 131073 tokens"));
  args = Llama(1);
  args.prompts = {131000};
  args.generate = 73;
  EXPECT_THAT(Error(args), HasSubstr("131073 tokens are asked for"));
  args = Llama(1);
  args.model = "llama-9";
  EXPECT_THAT(Error(args), HasSubstr("llama-3.2-1b"));
  EXPECT_THAT(Error(args), HasSubstr("there is no file llama-9"));
}

}  // namespace
}  // namespace quire::cli
