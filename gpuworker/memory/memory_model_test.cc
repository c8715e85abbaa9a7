// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/memory_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuworker/memory/testing/small_model.h"

namespace quire::worker {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kGiB = 0x1p30;

// Llama-3.1-8B with 16-bit keys and values on 80 GiB.
MemoryModelOptions Llama8B(uint32_t requests) {
  return {.device_bytes = uint64_t{80} << 30,
          .model_bytes = 16'060'000'000,
          .draft_bytes = uint64_t{60} << 20,
          .num_layers = 32,
          .num_kv_heads = 8,
          .key_bytes = 256,
          .value_bytes = 256,
          .repeated_heads = 4,
          .requests = requests,
          .budget_tokens = 2048};
}

// S_i as line 3 of Algorithm 1 is printed: i*B*R*H*D without the 4.
uint64_t AsPrinted(const MemoryModelOptions& options, uint32_t i) {
  const double free = static_cast<double>(options.device_bytes) -
                      1.3 * static_cast<double>(options.model_bytes + options.draft_bytes);
  const double elements = 128.0 * options.num_kv_heads * options.requests;
  const double layers = options.num_layers + 1.0 + options.repeated_heads - i;
  const double budget = i * static_cast<double>(options.budget_tokens) * elements;
  return static_cast<uint64_t>(std::floor((free - budget) / (4 * elements * layers)));
}

// Worked example of Algorithm 1.
TEST(MemoryModelTest, WorkedThresholds) {
  struct Row {
    uint32_t requests;
    std::vector<uint64_t> corrected, printed;  // S_0, S_1, S_16, S_31, S_32
  };
  for (const Row& row :
       {Row{4, {107124, 110043, 187182, 650018, 779612}, {107124, 110085, 188352, 657954, 789442}},
        Row{16, {26781, 27468, 45625, 154568, 185072}, {26781, 27510, 46795, 162504, 194903}},
        Row{32, {13390, 13705, 22032, 71993, 85982}, {13390, 13748, 23202, 79929, 95813}}}) {
    const MemoryModelOptions options = Llama8B(row.requests);
    const MemoryModel model = ModelOf(options);
    ASSERT_EQ(model.thresholds().size(), 33u);
    const std::vector<uint32_t> offloaded = {0, 1, 16, 31, 32};
    for (size_t n = 0; n < offloaded.size(); ++n) {
      EXPECT_EQ(model.thresholds()[offloaded[n]], row.corrected[n])
          << "R " << row.requests << ", S_" << offloaded[n];
      EXPECT_EQ(AsPrinted(options, offloaded[n]), row.printed[n])
          << "R " << row.requests << ", S_" << offloaded[n];
    }
  }
}

// Worked example of Eq. 7 at S_16.
TEST(MemoryModelTest, CorrectedThresholdsFillTheDeviceAndPrintedOnesExceedIt) {
  const std::vector<std::pair<uint32_t, double>> excess_gib = {{4, .37}, {16, 1.50}, {32, 3.00}};
  for (const auto& [requests, excess] : excess_gib) {
    const MemoryModelOptions options = Llama8B(requests);
    const MemoryModel model = ModelOf(options);
    const auto device = static_cast<double>(options.device_bytes);
    const double slack = device - model.Bytes(16, model.thresholds()[16]);
    EXPECT_GE(slack, 0) << requests;
    EXPECT_LT(slack, 0.002 * kGiB) << requests;
    EXPECT_NEAR((model.Bytes(16, AsPrinted(options, 16)) - device) / kGiB, excess, 0.005)
        << requests;
  }
}

// A 1B model on a small device, from the specification's worked examples.
TEST(MemoryModelTest, WorkedThresholdsOfASmallDevice) {
  MemoryModelOptions options = Llama8B(1);
  options.device_bytes = uint64_t{4} << 30;
  options.model_bytes = 2'480'000'000;
  options.draft_bytes = uint64_t{30} << 20;
  options.num_layers = 16;
  options.key_bytes = options.value_bytes = 128;
  const MemoryModel model = ModelOf(options);
  EXPECT_EQ(model.thresholds()[0], 23950u);
  EXPECT_EQ(model.thresholds()[1], 25045u);
  EXPECT_EQ(model.thresholds()[8], 37429u);
  EXPECT_EQ(model.thresholds()[16], 94039u);
}

TEST(MemoryModelTest, EverySizeCountsWhereItIs) {
  MemoryModelOptions options = SmallDevice();
  options.draft_bytes = 10;
  options.num_kv_heads = 2;
  options.key_bytes = 3;
  options.value_bytes = 5;
  options.repeated_heads = 4;
  options.requests = 7;
  const double row = 7 * 2;  // Requests and heads.
  EXPECT_DOUBLE_EQ(ModelOf(options).Bytes(0, 6), 1.3 * 110 + row * 8 * (3 + 1 + 4) * 6);
  EXPECT_DOUBLE_EQ(ModelOf(options).Bytes(2, 16),
                   1.3 * 110 + row * 8 * ((1 + 1 + 4) * 16 + 2 * 10));
  options.head_has_values = false;
  EXPECT_DOUBLE_EQ(ModelOf(options).Bytes(0, 6), 1.3 * 110 + row * (8 * (3 + 4) + 3) * 6);
}

// Eq. 8 by trying every number of layers. The budget is small, between thresholds, and above all.
TEST(MemoryModelTest, TheFewestLayersThatFitAreOffloaded) {
  for (const uint64_t budget : {1, 10, 120, 125, 126, 500}) {
    MemoryModelOptions options = SmallDevice();
    options.budget_tokens = budget;
    const MemoryModel model = ModelOf(options);
    for (uint64_t tokens = 0; tokens < 600; ++tokens) {
      std::optional<uint32_t> best = 0;
      while (*best <= 3 && model.Bytes(*best, tokens) > 1130) ++*best;
      if (*best > 3) best.reset();
      EXPECT_EQ(model.FewestOffloaded(model.LoadOf(1, tokens)), best)
          << "budget " << budget << ", " << tokens;
    }
  }
}

TEST(MemoryModelTest, ThresholdsAreWhereTheNextTokenNeedsAnotherLayer) {
  for (const uint32_t requests : {4, 16, 32}) {
    const MemoryModel model = ModelOf(Llama8B(requests));
    for (uint32_t i = 0; i <= 32; ++i) {
      const uint64_t last = model.thresholds()[i];
      EXPECT_EQ(model.FewestOffloaded(model.LoadOf(requests, last)), i) << requests;
      const auto next = model.FewestOffloaded(model.LoadOf(requests, last + 1));
      EXPECT_EQ(next, i < 32 ? std::optional(i + 1) : std::nullopt) << requests;
    }
  }
}

TEST(MemoryModelTest, LengthsCountTogetherAndBuffersOneByOne) {
  const MemoryModel model =
      ModelOf(SmallDevice());  // A token of a layer is 2 bytes, the budget is 10.
  const MemoryLoad load = {.tokens = 4 + 30, .buffered = 4 + 10};
  EXPECT_DOUBLE_EQ(model.Bytes(0, load), 130 + 2 * (3 + 1) * 34);
  EXPECT_DOUBLE_EQ(model.Bytes(2, load), 130 + 2 * ((1 + 1) * 34 + 2 * 14));
  EXPECT_DOUBLE_EQ(model.LayerBytes(load), 68);
}

TEST(MemoryModelTest, MeasuredRuntimeMemoryTakesThePlaceOfTheRule) {
  MemoryModelOptions options = SmallDevice();
  options.runtime_bytes = 5;
  EXPECT_DOUBLE_EQ(ModelOf(options).weight_bytes(), 105);
  options.device_bytes = 105;
  EXPECT_TRUE(MemoryModel::Create(options).ok());
}

// A buffer for more tokens than there are frees nothing; taken literally, S_1 would be negative.
TEST(MemoryModelTest, ThresholdsNeverFall) {
  MemoryModelOptions options = SmallDevice();
  options.budget_tokens = 1'000'000;
  EXPECT_THAT(ModelOf(options).thresholds(), AllOf(testing::SizeIs(4), Each(125u)));
  options.budget_tokens = 126;
  EXPECT_THAT(ModelOf(options).thresholds(), Each(125u));
}

TEST(MemoryModelTest, ADeviceThatTheWeightsFillHoldsNoToken) {
  MemoryModelOptions options = SmallDevice();
  options.device_bytes = 130;
  const MemoryModel model = ModelOf(options);
  EXPECT_THAT(model.thresholds(), Each(0u));
  EXPECT_EQ(model.FewestOffloaded(model.LoadOf(1, 0)), 0u);
  EXPECT_EQ(model.FewestOffloaded(model.LoadOf(1, 1)), std::nullopt);
}

TEST(MemoryModelTest, HugeSizesDoNotOverflow) {
  MemoryModelOptions options = SmallDevice();
  options.device_bytes = ~uint64_t{0};
  EXPECT_EQ(ModelOf(options).thresholds()[0], uint64_t{1} << 61);
  EXPECT_EQ(ModelOf(options).thresholds()[3], uint64_t{1} << 62) << "cut to it";
  options.budget_tokens = ~uint64_t{0};
  EXPECT_THAT(ModelOf(options).thresholds(), Each(uint64_t{1} << 61));
  options.model_bytes = options.draft_bytes = ~uint64_t{0};
  EXPECT_FALSE(MemoryModel::Create(options).ok());
}

void ExpectRefused(const MemoryModelOptions& options, const std::string& message) {
  const auto model = MemoryModel::Create(options);
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument) << message;
  EXPECT_THAT(std::string(model.status().message()), HasSubstr(message));
}

TEST(MemoryModelTest, NoDraftModelNoValuesAndNothingRepeatedAreFine) {
  MemoryModelOptions options = SmallDevice();
  options.value_bytes = options.draft_bytes = options.repeated_heads = 0;
  EXPECT_THAT(ModelOf(options).thresholds(), ElementsAre(250, 330, 490, 970));
}

TEST(MemoryModelTest, OptionsThatMakeNoSenseAreNamed) {
  for (const auto& [field, name] :
       std::vector<std::pair<uint64_t MemoryModelOptions::*, std::string>>{
           {&MemoryModelOptions::device_bytes, "device_bytes"},
           {&MemoryModelOptions::model_bytes, "model_bytes"},
           {&MemoryModelOptions::key_bytes, "key_bytes"},
           {&MemoryModelOptions::budget_tokens, "budget_tokens"}}) {
    MemoryModelOptions options = SmallDevice();
    options.*field = 0;
    ExpectRefused(options, name + " is 0; it must be at least 1");
  }
  for (const auto& [field, name] :
       std::vector<std::pair<uint32_t MemoryModelOptions::*, std::string>>{
           {&MemoryModelOptions::num_layers, "num_layers"},
           {&MemoryModelOptions::num_kv_heads, "num_kv_heads"},
           {&MemoryModelOptions::requests, "requests"}}) {
    MemoryModelOptions options = SmallDevice();
    options.*field = 0;
    ExpectRefused(options, name + " is 0; it must be at least 1");
  }
  MemoryModelOptions options = SmallDevice();
  options.device_bytes = 129;
  ExpectRefused(options,
                "device_bytes 129 is less than the weights and their run-time memory, 130 bytes "
                "(model_bytes 100, draft_bytes 0)");
}

}  // namespace
}  // namespace quire::worker
