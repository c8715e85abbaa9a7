// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/decode_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

// Thresholds of one request: 125, 163, 240, 470.
MemoryModel SmallModel() {
  return *MemoryModel::Create({.device_bytes = 1130,
                               .model_bytes = 100,
                               .num_layers = 3,
                               .num_kv_heads = 1,
                               .key_bytes = 1,
                               .value_bytes = 1,
                               .budget_tokens = 10});
}

std::vector<std::string> Texts(const DecodeWalk& walk) {
  std::vector<std::string> texts;
  for (const DecodeEvent& event : walk.events) {
    texts.push_back(std::to_string(event.step) + " " + std::string(Name(event.kind)) + " " +
                    std::to_string(event.subject) + " at " + std::to_string(event.tokens));
  }
  return texts;
}

TEST(DecodeWalkTest, LayersAreWrittenAndLeaveFromTheLastOneDown) {
  const MemoryModel model = SmallModel();
  const auto walk = WalkDecode(model, {.prompts = {120}, .generated = 80, .lead_steps = 3});
  ASSERT_TRUE(walk.ok()) << walk.status();
  EXPECT_EQ(Texts(*walk),
            (std::vector<std::string>{"0 started 0 at 120", "2 write begins 2 at 122",
                                      "5 layer leaves 2 at 125", "40 write begins 1 at 160",
                                      "43 layer leaves 1 at 163", "79 finished 0 at 200"}));
  EXPECT_EQ(walk->steps, 80u);
  EXPECT_EQ(walk->most_offloaded, 2u);
  EXPECT_EQ(walk->most_left_in_a_step, 1u);
  EXPECT_EQ(walk->most_bytes, 1130) << "163 tokens with one layer off fill the device: 130 + 1000";
}

TEST(DecodeWalkTest, RequestsWaitForRoomAndArePreemptedWhenItEnds) {
  const MemoryModel model = SmallModel();
  const auto walk =
      WalkDecode(model, {.prompts = {200, 200, 200}, .generated = 60, .lead_steps = 5});
  ASSERT_TRUE(walk.ok()) << walk.status();
  EXPECT_LE(walk->most_bytes, 1130);
  EXPECT_EQ(walk->most_running, 2u);
  std::vector<uint32_t> finished;
  size_t preempted = 0;
  for (const DecodeEvent& event : walk->events) {
    if (event.kind == DecodeEventKind::kFinished) finished.push_back(event.subject);
    if (event.kind == DecodeEventKind::kPreempted) ++preempted;
  }
  EXPECT_THAT(finished, ::testing::ElementsAre(0, 1, 2));
  EXPECT_GT(preempted, 0u);
}

TEST(DecodeWalkTest, ARequestThatNeverFitsIsNamed) {
  const MemoryModel model = SmallModel();
  const auto walk = WalkDecode(model, {.prompts = {10, 460}, .generated = 11});
  EXPECT_EQ(walk.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(walk.status().message()),
              HasSubstr("request 1 does not fit by itself with every layer off the device: 471 "
                        "tokens take 1132 bytes of 1130"));
  EXPECT_FALSE(WalkDecode(model, {.prompts = {}, .generated = 1}).ok());
  EXPECT_FALSE(WalkDecode(model, {.prompts = {1}, .generated = 0}).ok());
}

}  // namespace
}  // namespace quire::worker
