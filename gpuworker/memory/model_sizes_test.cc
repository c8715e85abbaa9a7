// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/model_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpuworker/model/checkpoint/checkpoint.h"
#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

// S_0, S_1, S_16, S_31 and S_32 of the worked example, 80 GiB.
TEST(ModelSizesTest, ThePresetOfLlamaHasTheWorkedThresholds) {
  MemoryModelOptions options = PlanOptions(*PresetSizes("llama-3.1-8b"), DType::kBF16);
  options.device_bytes = uint64_t{80} << 30;
  options.requests = 16;
  options.budget_tokens = 2048;
  const auto model = MemoryModel::Create(options);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& s = model->thresholds();
  EXPECT_EQ(s[0], 26781u);
  EXPECT_EQ(s[1], 27468u);
  EXPECT_EQ(s[16], 45625u);
  EXPECT_EQ(s[31], 154568u);
  EXPECT_EQ(s[32], 185072u);
}

TEST(ModelSizesTest, TheSizesOfAConfigAreThoseOfItsTensors) {
  const std::string golden = "tests/data/golden/";
  for (const std::string& name :
       {std::string("models/recall-small"), std::string("models/recall-across"),
        golden + "llama-linear-bias", golden + "mixtral", golden + "qwen3-moe",
        golden + "phi3-longrope", golden + "gemma2", golden + "gemma3", golden + "deepseek-v2",
        golden + "deepseek-v3-bf16"}) {
    const std::string directory = QUIRE_SOURCE_DIR "/" + name;
    const auto checkpoint = Checkpoint::Open(directory);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    uint64_t bytes = 0;
    for (const auto& [tensor, view] : checkpoint->tensors()) bytes += view.data.size();
    const auto config = LoadModelConfig(directory + "/config.json");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(SizesOf(*config, name).model_bytes, bytes) << name;
  }
}

TEST(ModelSizesTest, OnlyGroupedHeadsAreRepeated) {
  ModelSizes sizes = *PresetSizes("qwen3-8b");
  EXPECT_EQ(PlanOptions(sizes, DType::kF16).repeated_heads, 4u);
  EXPECT_EQ(PlanOptions(sizes, DType::kF32).key_bytes, 512u);
  sizes.num_kv_heads = sizes.num_query_heads;
  EXPECT_EQ(PlanOptions(sizes, DType::kF16).repeated_heads, 0u);
}

TEST(ModelSizesTest, AnUnknownNameListsTheKnownOnes) {
  const auto sizes = PresetSizes("llama");
  EXPECT_THAT(std::string(sizes.status().message()),
              HasSubstr("llama-3.1-8b, llama-3.2-1b, qwen3-8b"));
  for (const std::string_view name : PresetNames()) EXPECT_TRUE(PresetSizes(name).ok()) << name;
}

}  // namespace
}  // namespace quire::worker
