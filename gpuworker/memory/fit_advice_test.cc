// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/fit_advice.h"

#include <gtest/gtest.h>

#include <optional>

#include "gpuworker/memory/model_sizes.h"

namespace quire::worker {
namespace {

MemoryModelOptions Llama(uint32_t requests) {
  MemoryModelOptions options = PlanOptions(*PresetSizes("llama-3.1-8b"), DType::kF16);
  options.device_bytes = uint64_t{80} << 30;
  options.requests = requests;
  options.budget_tokens = 2048;
  return options;
}

uint64_t Longest(const MemoryModelOptions& options) {
  const auto model = MemoryModel::Create(options);
  return model.ok() ? model->thresholds().back() : 0;
}

TEST(FitAdviceTest, EachAdviceAloneSufficesAndOneLessDoesNot) {
  constexpr uint64_t kTokens = 90'000;
  const MemoryModelOptions options = Llama(32);
  ASSERT_LT(Longest(options), kTokens);
  const FitAdvice advice = WhatWouldFit(options, kTokens);

  MemoryModelOptions changed = options;
  changed.device_bytes = advice.device_bytes;
  EXPECT_GE(Longest(changed), kTokens);
  changed.device_bytes -= 4096;
  EXPECT_LT(Longest(changed), kTokens);

  changed = options;
  ASSERT_TRUE(advice.requests);
  changed.requests = *advice.requests;
  EXPECT_GE(Longest(changed), kTokens);
  ++changed.requests;
  EXPECT_LT(Longest(changed), kTokens);

  changed = options;
  ASSERT_TRUE(advice.budget_tokens);
  changed.budget_tokens = *advice.budget_tokens;
  EXPECT_GE(Longest(changed), kTokens);
  ++changed.budget_tokens;
  EXPECT_LT(Longest(changed), kTokens);

  EXPECT_EQ(advice.tokens, Longest(options));
}

TEST(FitAdviceTest, WeightsThatDoNotFitNeedALargerDevice) {
  MemoryModelOptions options = Llama(16);
  options.device_bytes = uint64_t{8} << 30;
  const FitAdvice advice = WhatWouldFit(options, 1);
  EXPECT_EQ(advice.requests, std::nullopt);
  EXPECT_EQ(advice.budget_tokens, std::nullopt);
  EXPECT_EQ(advice.tokens, std::nullopt);
  options.device_bytes = advice.device_bytes;
  EXPECT_GE(Longest(options), 1u);
}

}  // namespace
}  // namespace quire::worker
