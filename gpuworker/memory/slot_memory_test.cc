// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/slot_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;

constexpr CacheLayout kBudget{.sink_pages = 1, .window_pages = 2, .selectable_pages = 3};

KvSpec SpecOf(uint32_t layers) {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF16;
  spec.num_layers = layers;
  spec.num_query_heads = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  return spec;
}

SlotDemand DemandOf(const std::vector<CacheLayout>& layouts) {
  return SlotDemand::Of(layouts, SpecOf(static_cast<uint32_t>(layouts.size())),
                        /*may_be_whole=*/true);
}

TEST(SlotDemandTest, LayersThatSelectAreWholeFromTheFirstOn) {
  const SlotDemand demand =
      DemandOf({{.everything = true}, kBudget, WindowLayout(8, 4, 1000), kBudget});
  const uint64_t slot = demand.slot_bytes;
  ASSERT_EQ(slot, ExtentBytes(SpecOf(4), 1));
  const uint64_t window = WindowLayout(8, 4, 1000).num_slots();
  // 40 tokens take 10 pages.
  EXPECT_EQ(demand.Bytes(40), (10 + 6 + window + 6) * slot);
  const auto with = [](const SlotDemand& of, uint32_t offloaded, uint64_t tokens) {
    return SequenceLoad{.demand = &of, .tokens = tokens}.Bytes(4, 0)[offloaded];
  };
  EXPECT_EQ(with(demand, 4, 40), demand.Bytes(40));
  EXPECT_EQ(with(demand, 3, 40), demand.Bytes(40)) << "the first layer never leaves";
  EXPECT_EQ(with(demand, 2, 40), (10 + 10 + window + 6) * slot);
  EXPECT_EQ(with(demand, 1, 40), (10 + 10 + window + 6) * slot);
  EXPECT_EQ(with(demand, 0, 40), (10 + 10 + window + 10) * slot);
  EXPECT_EQ(with(demand, 0, 4), (1 + 1 + window + 1) * slot) << "less than a budget";
  const std::vector<CacheLayout> layouts = {kBudget, kBudget};
  const SlotDemand fixed = SlotDemand::Of(layouts, SpecOf(2));
  EXPECT_EQ(with(fixed, 0, 400), with(fixed, 2, 400)) << "it may not be whole";
}

TEST(SlotDemandTest, PoolsOfWholeLayersGrowAtDifferentPages) {
  constexpr uint32_t kLayers = 32;
  for (uint64_t pages = 1; pages < 3000; ++pages) {
    uint32_t grow = 0;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const uint64_t slots = WholePages(pages, layer);
      ASSERT_GE(slots, pages);
      ASSERT_LE(slots, pages + pages / 16 + layer / 16 + 1);
      ASSERT_EQ(WholePages(slots, layer), slots) << "a pool is as large until it is full";
      if (WholePages(pages + 1, layer) > slots) ++grow;
    }
    if (pages >= 256) ASSERT_LE(grow, 2u) << "pools of " << pages << " pages grow by 16 or more";
  }
}

TEST(SlotDemandTest, MostTokensAreThoseThatFitWithEveryLayerOff) {
  const SlotDemand demand = DemandOf({{.everything = true}, kBudget});
  EXPECT_EQ(demand.MostTokens(16 * demand.slot_bytes, 1000), 40u);
  EXPECT_EQ(demand.MostTokens(16 * demand.slot_bytes, 30), 30u);
  EXPECT_EQ(demand.MostTokens(6 * demand.slot_bytes - 1, 1000), 0u);
}

TEST(SlotMemoryTest, ALayerLeavesWhereTheNextPageWouldNotFit) {
  const SlotDemand demand = DemandOf({kBudget, kBudget, kBudget});
  SlotMemory memory(OffloadRule::kLayerByLayer, 3, 3 * 10 * demand.slot_bytes);
  std::vector<uint64_t> left;
  uint32_t before = 0;
  for (uint64_t tokens = 1; tokens < 70; ++tokens) {
    memory.BeforeStep(std::vector<SequenceLoad>{
        {.demand = &demand, .tokens = tokens, .most_tokens = 1000, .starts = tokens == 1}});
    if (memory.offloaded() > before) left.push_back(tokens);
    before = memory.offloaded();
  }
  // 30 slots: 10 pages of three layers, 12 of two, 18 of one.
  EXPECT_THAT(left, ElementsAre(41, 49));
  EXPECT_TRUE(memory.IsWhole(0));
  EXPECT_FALSE(memory.IsWhole(1));
}

TEST(SlotMemoryTest, WhereNoneGoesOnLayersNeedNotComeBackOneByOne) {
  const SlotDemand demand = DemandOf({kBudget, kBudget, kBudget});
  SlotMemory memory(OffloadRule::kLayerByLayer, 3, 3 * 10 * demand.slot_bytes);
  const auto step = [&](uint64_t tokens, bool starts) {
    memory.BeforeStep(std::vector<SequenceLoad>{
        {.demand = &demand, .tokens = tokens, .most_tokens = 1000, .starts = starts}});
    return memory.offloaded();
  };
  EXPECT_EQ(step(60, true), 2u);
  EXPECT_EQ(step(36, false), 1u) << "one a step";
  EXPECT_EQ(step(36, false), 0u) << "36 / 0.9 tokens fit";
  EXPECT_EQ(step(60, true), 2u);
  EXPECT_EQ(step(37, false), 1u);
  EXPECT_EQ(step(37, false), 1u) << "37 / 0.9 do not";
  EXPECT_EQ(step(37, true), 0u);
}

TEST(SlotMemoryTest, TheRulesOfAComparison) {
  const SlotDemand demand = DemandOf({kBudget, kBudget, kBudget});
  const std::vector<SequenceLoad> fits = {{.demand = &demand, .tokens = 36, .most_tokens = 1000}};
  const std::vector<SequenceLoad> not_all = {
      {.demand = &demand, .tokens = 41, .most_tokens = 1000}};
  SlotMemory at_once(OffloadRule::kAllAtOnce, 3, 3 * 10 * demand.slot_bytes);
  at_once.BeforeStep(fits);
  EXPECT_EQ(at_once.offloaded(), 0u);
  at_once.BeforeStep(not_all);
  EXPECT_EQ(at_once.offloaded(), 3u);
  at_once.BeforeStep(fits);
  EXPECT_EQ(at_once.offloaded(), 0u);
  SlotMemory always(OffloadRule::kAlways, 3, 3 * 10 * demand.slot_bytes);
  always.BeforeStep(fits);
  EXPECT_EQ(always.offloaded(), 3u);
  EXPECT_FALSE(always.may_keep());
}

/// Sequences of random layouts that come, grow and go, and what has to hold in every step.
class RandomBatch {
 public:
  explicit RandomBatch(uint64_t seed)
      : random_(seed),
        layers_(1 + Below(40)),
        slot_bytes_((Below(4000) + 40 * layers_) * ExtentBytes(SpecOf(layers_), 1)),
        memory_(OffloadRule::kLayerByLayer, layers_, slot_bytes_) {}

  void Run() {
    for (int step = 0; step < 400; ++step) {
      const bool starts = Arrive();
      const uint32_t before = memory_.offloaded();
      const std::vector<SequenceLoad> loads = Loads();
      memory_.BeforeStep(loads);
      if (!starts) {
        ASSERT_LE(memory_.offloaded(), before + 1) << "step " << step;
        ASSERT_GE(memory_.offloaded() + 1, before) << "step " << step;
      }
      ASSERT_LE(BytesOf(loads, memory_.offloaded()), slot_bytes_) << "Eq. 7, step " << step;
      most_offloaded_ = std::max(most_offloaded_, memory_.offloaded());
      Leave();
    }
  }
  uint32_t most_offloaded() const { return most_offloaded_; }

 private:
  struct Sequence {
    SlotDemand demand;
    uint64_t tokens;
    uint64_t end;
    bool starts = true;
  };
  uint64_t Below(uint64_t end) { return random_.Next() % end; }

  /// A sequence that fits to its end beside the others, with every layer off.
  bool Arrive() {
    if (Below(20) > 0) return false;
    std::vector<CacheLayout> layouts;
    const bool keeps_first = Below(4) == 0;
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      layouts.push_back({.sink_pages = 1, .window_pages = 2, .selectable_pages = 3});
      if (layer == 0 && keeps_first) layouts.back() = {.everything = true};
    }
    Sequence sequence{.demand = SlotDemand::Of(layouts, SpecOf(layers_), Below(5) > 0),
                      .tokens = 1 + Below(300),
                      .end = 0};
    sequence.end = sequence.tokens + 1 + Below(500);
    uint64_t bytes = sequence.demand.Bytes(sequence.end);
    for (const Sequence& other : sequences_) bytes += other.demand.Bytes(other.end);
    if (bytes > slot_bytes_) return false;
    sequences_.push_back(std::move(sequence));
    return true;
  }
  std::vector<SequenceLoad> Loads() {
    std::vector<SequenceLoad> loads;
    for (Sequence& sequence : sequences_) {
      loads.push_back({.demand = &sequence.demand,
                       .tokens = ++sequence.tokens,
                       .most_tokens = sequence.end,
                       .starts = std::exchange(sequence.starts, false)});
    }
    return loads;
  }
  uint64_t BytesOf(const std::vector<SequenceLoad>& loads, uint32_t offloaded) const {
    uint64_t bytes = 0;
    for (const SequenceLoad& load : loads) bytes += load.Bytes(layers_, 0)[offloaded];
    return bytes;
  }
  void Leave() {
    std::erase_if(sequences_,
                  [](const Sequence& sequence) { return sequence.tokens >= sequence.end; });
  }

  SeededRandom random_;
  const uint32_t layers_;
  const uint64_t slot_bytes_;
  SlotMemory memory_;
  std::vector<Sequence> sequences_;
  uint32_t most_offloaded_ = 0;
};

TEST(SlotMemoryTest, EveryStepOfARandomBatchFitsAndTakesOneLayerAtMost) {
  constexpr uint64_t kFirstSeed = 1, kSeeds = 60;
  std::cout << "seeds from " << kFirstSeed << "\n";
  uint32_t batches_that_offload = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomBatch batch(seed);
    ASSERT_NO_FATAL_FAILURE(batch.Run());
    if (batch.most_offloaded() > 0) ++batches_that_offload;
  }
  EXPECT_GT(batches_that_offload, kSeeds / 4);
}

}  // namespace
}  // namespace quire::worker
