// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/adaptive_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/memory/testing/small_model.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using Lengths = std::vector<uint64_t>;

TEST(AdaptiveMemoryTest, AsARequestGrowsALayerLeavesAtEachThreshold) {
  const MemoryModel model = ModelOf(SmallDevice());
  ASSERT_THAT(model.thresholds(), ElementsAre(125, 163, 240, 470));
  AdaptiveMemory memory(&model);
  Lengths left;  // Lengths at which a layer left.
  uint32_t offloaded = 0;
  for (uint64_t length = 1; length < 470; ++length) {
    const StepMemory step = memory.BeforeStep(Lengths{length});
    ASSERT_EQ(step.preempted, 0u) << length;
    if (step.offloaded > offloaded) left.push_back(length);
    offloaded = step.offloaded;
  }
  EXPECT_THAT(left, ElementsAre(125, 163, 240));
  EXPECT_EQ(memory.BeforeStep(Lengths{470}).preempted, 1u) << "no room for token 471";
}

// The text of the paper offloads two.
TEST(AdaptiveMemoryTest, APromptBetweenTheSecondAndTheThirdThresholdOffloadsThreeLayers) {
  const MemoryModel model = ModelOf(SmallDevice());
  EXPECT_EQ(AdaptiveMemory(&model).BeforeStep(Lengths{239}).offloaded, 2u);
  EXPECT_EQ(AdaptiveMemory(&model).BeforeStep(Lengths{240}).offloaded, 3u);
  EXPECT_EQ(AdaptiveMemory(&model).BeforeStep(Lengths{300}).offloaded, 3u);
}

TEST(AdaptiveMemoryTest, ALayerIsWrittenBeforeItLeaves) {
  const MemoryModel model = ModelOf(SmallDevice());
  AdaptiveMemory memory(&model, /*lead_steps=*/10);
  EXPECT_EQ(memory.BeforeStep(Lengths{114}).written, 0u);
  EXPECT_EQ(memory.BeforeStep(Lengths{115}).written, 1u);
  EXPECT_EQ(memory.BeforeStep(Lengths{124}).offloaded, 0u);
  EXPECT_EQ(memory.BeforeStep(Lengths{125}).offloaded, 1u);
}

TEST(AdaptiveMemoryTest, ALayerComesBackBelowNineTenthsOfItsThresholdOneAStep) {
  const MemoryModel model = ModelOf(SmallDevice());
  AdaptiveMemory memory(&model, /*lead_steps=*/0);
  EXPECT_EQ(memory.BeforeStep(Lengths{200}).offloaded, 2u);
  EXPECT_EQ(memory.BeforeStep(Lengths{147}).offloaded, 2u);  // 0.9 * 163 = 146.7
  EXPECT_EQ(memory.BeforeStep(Lengths{146}).offloaded, 1u);
  EXPECT_EQ(memory.BeforeStep(Lengths{300}).offloaded, 3u);
  EXPECT_EQ(memory.BeforeStep(Lengths{20}).offloaded, 2u);
  EXPECT_EQ(memory.BeforeStep(Lengths{20}).offloaded, 1u);
  EXPECT_EQ(memory.BeforeStep(Lengths{20}).offloaded, 0u);
}

// With 2 tokens above the budget a layer that leaves frees 2 of the 34 rows that a token takes.
TEST(AdaptiveMemoryTest, WhereATokenNeedsSeveralLayersTheyLeaveOneAfterTheOther) {
  MemoryModelOptions options = SmallDevice();
  options.num_layers = 32;
  options.budget_tokens = 98;
  options.device_bytes = 130 + uint64_t{33} * 2 * 100;  // Holds 100 tokens of all layers.
  const MemoryModel model = ModelOf(options);
  const auto at_once = model.FewestOffloaded(model.LoadOf(1, 101));
  ASSERT_GT(at_once, 5u);
  AdaptiveMemory memory(&model, /*lead_steps=*/0);
  uint32_t offloaded = 0;
  for (uint64_t length = 20; length < model.thresholds().back(); ++length) {
    const StepMemory step = memory.BeforeStep(Lengths{length});
    ASSERT_LE(step.offloaded, offloaded + 1) << length;
    ASSERT_LE(model.Bytes(step.offloaded, length + 1), options.device_bytes) << length;
    offloaded = step.offloaded;
  }
  EXPECT_EQ(offloaded, 32u);
}

TEST(AdaptiveMemoryTest, TheNewestRequestsWaitAndNoMoreThanHaveTo) {
  const MemoryModel model = ModelOf(SmallDevice());
  AdaptiveMemory memory(&model);
  EXPECT_EQ(memory.BeforeStep(Lengths{200, 200, 40}).preempted, 1u);
  EXPECT_EQ(memory.BeforeStep(Lengths{200, 200}).preempted, 0u);
  EXPECT_EQ(memory.BeforeStep(Lengths{400, 200, 20}).preempted, 2u);
}

TEST(AdaptiveMemoryTest, ARequestIsAdmittedWhereTheNextStepsFit) {
  const MemoryModel model = ModelOf(SmallDevice());
  const AdaptiveMemory memory(&model, /*lead_steps=*/19);
  EXPECT_TRUE(memory.Admits(Lengths{}, 450));  // 470 after 20 steps.
  EXPECT_FALSE(memory.Admits(Lengths{}, 451));
  EXPECT_FALSE(memory.Admits(Lengths{300}, 150));
}

/// Requests of a random decode, and what a decode must always keep.
class RandomDecode {
 public:
  explicit RandomDecode(uint64_t seed)
      : random_(seed), model_(RandomModel()), memory_(&model_, lead_) {}

  void Run() {
    for (int step = 0; step < 1500; ++step) {
      Arrive();
      const uint32_t before = now_.offloaded;
      const uint32_t written_before = now_.written;
      now_ = memory_.BeforeStep(lengths_);
      ASSERT_LE(now_.preempted, lengths_.size());
      ASSERT_LE(now_.offloaded, now_.written);
      ASSERT_LE(now_.written, model_.num_layers());
      CheckPreempted();
      lengths_.resize(lengths_.size() - now_.preempted);
      if (!started_) {
        ASSERT_LE(now_.offloaded, before + 1) << "one more token costs more than one layer";
        ASSERT_LE(now_.written, written_before + 1);
        if (lead_ > 0) ASSERT_LE(now_.offloaded, written_before) << "a layer left unwritten";
      }
      if (now_.offloaded > before) CheckNeededSoon();
      for (uint64_t& length : lengths_) ++length;
      ASSERT_LE(model_.Bytes(now_.offloaded, Load(0)), model_.options().device_bytes)
          << "Eq. 7, step " << step;
      Leave();
    }
  }
  uint32_t most_offloaded() const { return most_offloaded_; }

 private:
  uint64_t Below(uint64_t end) { return random_.Next() % end; }

  MemoryModel RandomModel() {
    MemoryModelOptions options;
    options.num_layers = 1 + Below(80);
    options.num_kv_heads = 1 + Below(16);
    options.key_bytes = 2 + Below(256);
    options.value_bytes = Below(256);
    options.head_has_values = Below(2) == 0;
    options.repeated_heads = Below(9);
    options.budget_tokens = 1 + Below(400);
    options.model_bytes = 1 + Below(uint64_t{1} << 30);
    lead_ = Below(2) * Below(100);
    const uint64_t row = options.num_kv_heads * (options.key_bytes + options.value_bytes);
    const uint64_t layers = options.num_layers + options.repeated_heads + 1;
    options.device_bytes = 1 + static_cast<uint64_t>(1.3 * double(options.model_bytes)) +
                           row * layers * (1 + Below(4000));
    return ModelOf(options);
  }

  void Arrive() {
    started_ = false;
    while (Below(50) == 0) {
      const uint64_t prompt = 1 + Below(800);
      if (!memory_.Admits(lengths_, prompt)) return;
      lengths_.push_back(prompt);
      started_ = true;
    }
  }
  void Leave() {
    std::erase_if(lengths_, [&](uint64_t) { return Below(400) == 0; });
    most_offloaded_ = std::max(most_offloaded_, now_.offloaded);
  }
  void CheckPreempted() const {
    if (now_.preempted == 0) return;
    const size_t kept = lengths_.size() - now_.preempted;
    EXPECT_TRUE(Fits(kept));
    EXPECT_FALSE(Fits(kept + 1)) << "one more could have run";
  }
  // A layer leaves no more steps ahead than there are layers.
  void CheckNeededSoon() const {
    const auto needed = model_.FewestOffloaded(Load(model_.num_layers() + 1));
    if (needed) EXPECT_GE(*needed, now_.offloaded);
  }
  bool Fits(size_t requests) const { return model_.FewestOffloaded(Load(1, requests)).has_value(); }
  MemoryLoad Load(uint64_t steps, std::optional<size_t> requests = {}) const {
    MemoryLoad load;
    for (size_t i = 0; i < requests.value_or(lengths_.size()); ++i) {
      load.tokens += lengths_[i] + steps;
      load.buffered += std::min(lengths_[i] + steps, model_.options().budget_tokens);
    }
    return load;
  }

  SeededRandom random_;
  uint32_t lead_ = 0;
  const MemoryModel model_;
  AdaptiveMemory memory_;
  Lengths lengths_;
  bool started_ = false;
  StepMemory now_;
  uint32_t most_offloaded_ = 0;
};

TEST(AdaptiveMemoryTest, EveryStepOfALongDecodeFitsAndTakesOneLayerAtMost) {
  uint32_t decodes_that_offload = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    RandomDecode decode(seed);
    decode.Run();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    if (decode.most_offloaded() > 0) ++decodes_that_offload;
  }
  std::cout << decodes_that_offload << " of 150 decodes, seeds 1 to 150, moved layers\n";
  EXPECT_GT(decodes_that_offload, 50u);
}

}  // namespace
}  // namespace quire::worker
