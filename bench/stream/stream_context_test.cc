// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/stream_context.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/kit/gqa_spec.h"
#include "bench/stream/slot_cache.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

KvSpec Spec(uint32_t layers, uint32_t heads) {
  return GqaSpec("stream", {.layers = layers, .query_heads = 4 * heads, .kv_heads = heads});
}

/// Share of selected units that were not selected one step before.
double Turnover(const StreamContext& context, double cosine, int steps) {
  auto selections = StreamSelections::Make(context, {.cosine = cosine}, {});
  EXPECT_TRUE(selections.ok()) << selections.status();
  uint64_t missing = 0, selected = 0;
  for (int step = 0; step < steps; ++step) {
    const StepSelection before = selections->selection();
    EXPECT_TRUE(selections->Step().ok());
    missing += MissingUnits(before, selections->selection());
    selected += CountUnits(selections->selection());
  }
  return static_cast<double>(missing) / static_cast<double>(selected);
}

// In published streams, 14 % of the selection is new in a quiet step, and 28 % when all heads
// drift. More than 80 % stays of a budget of 2048 tokens, which includes sinks and window of 512
// each.
TEST(StreamContextTest, TheSelectionTurnsOverAsPublishedStreamsDo) {
  const auto context = StreamContext::Make(Spec(1, 8), {.pages = 1024});
  ASSERT_TRUE(context.ok()) << context.status();
  const double quiet = Turnover(*context, 0.95, 80);
  const double drifting = Turnover(*context, 0.84, 80);
  EXPECT_NEAR(quiet, 0.14, 0.06);
  EXPECT_NEAR(drifting, 0.28, 0.06);
  EXPECT_LT(drifting * 1024 / 2048, 0.20);
}

TEST(StreamContextTest, SelectionsHoldMoreAttentionThanTheWindowAndLessThanTheOracle) {
  const auto context = StreamContext::Make(Spec(1, 1), {.pages = 1024});
  ASSERT_TRUE(context.ok()) << context.status();
  const TopicPages& pages = context->pages(0, 0);
  QueryStream stream(pages, {.cosine = 0.95});
  const PageBudget budget;
  double oracle = 0, quest = 0, fixed_only = 0;
  for (int step = 0; step < 12; ++step, stream.Step()) {
    const auto selected = context->Select(0, stream.queries(), budget, context->num_pages());
    ASSERT_TRUE(selected.ok()) << selected.status();
    for (uint32_t head = 0; head < 4; ++head) {
      const auto masses =
          PageMasses(KeyScores(pages, stream.queries().subspan(head * 128, 128)), 32);
      double fixed = 0, chosen = 0;
      for (uint32_t page = 0; page < 1024; ++page) {
        if (page < budget.sink_pages || page >= 1024 - budget.window_pages) fixed += masses[page];
      }
      for (const uint32_t page : selected->front()) chosen += masses[page];
      oracle += TopMass(masses, 64);
      quest += fixed + chosen;
      fixed_only += fixed;
    }
  }
  EXPECT_GE(oracle, quest);
  EXPECT_GT(quest, 2 * fixed_only);
}

TEST(StreamContextTest, SelectionsAreCandidatesInOrder) {
  const auto context = StreamContext::Make(Spec(2, 2), {.pages = 128, .topics = 8});
  ASSERT_TRUE(context.ok()) << context.status();
  const PageBudget budget = {.sink_pages = 2, .window_pages = 3, .selected_pages = 10};
  auto selections = StreamSelections::Make(*context, {}, budget);
  ASSERT_TRUE(selections.ok()) << selections.status();
  EXPECT_EQ(CountUnits(selections->selection()), 2u * 2 * 10);
  EXPECT_EQ(MissingUnits({}, selections->selection()), 2u * 2 * 10);
  EXPECT_EQ(MissingUnits(selections->selection(), selections->selection()), 0u);
  EXPECT_NE(selections->selection()[0], selections->selection()[1]) << "layers differ";
  for (const auto& layer : selections->selection()) {
    for (const auto& pages : layer) {
      EXPECT_TRUE(std::ranges::is_sorted(pages));
      EXPECT_GE(pages.front(), 2u);
      EXPECT_LT(pages.back(), 125u);
    }
  }
}

TEST(SlotCacheTest, ChecksPagesAndBytesOfEverySlot) {
  const auto context = StreamContext::Make(Spec(2, 2), {.pages = 64, .topics = 4});
  ASSERT_TRUE(context.ok()) << context.status();
  const StepSelection wanted = {{{3, 9}, {0, 5}}, {{1, 2}, {7, 8}}};
  SlotCache slots(context->spec(), 2);
  EXPECT_TRUE(IsDataLoss(slots.Check(wanted, *context))) << "nothing is there";
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t head = 0; head < 2; ++head) {
      for (uint32_t slot = 0; slot < 2; ++slot) {
        const uint32_t page = wanted[layer][head][1 - slot];
        slots.Place(layer, head, slot, page, context->unit(layer, page, head));
      }
    }
  }
  EXPECT_TRUE(slots.Check(wanted, *context).ok());
  slots.Place(1, 0, 1, 1, context->unit(1, 9, 0));
  EXPECT_TRUE(IsDataLoss(slots.Check(wanted, *context)));
  slots.Place(1, 0, 1, 2, context->unit(1, 2, 0));
  EXPECT_TRUE(IsDataLoss(slots.Check(wanted, *context))) << "page 2 twice, page 1 gone";
}

TEST(SlotCacheTest, NoticesAWrongUnitInASlot) {
  const auto context = StreamContext::Make(Spec(1, 2), {.pages = 64, .topics = 4});
  ASSERT_TRUE(context.ok()) << context.status();
  const StepSelection wanted = {{{3, 9}, {0, 5}}};
  const auto holding = [&](uint32_t page, uint32_t of_page, uint32_t of_head) {
    SlotCache slots(context->spec(), 2);
    slots.Place(0, 0, 0, 3, context->unit(0, 3, 0));
    slots.Place(0, 0, 1, page, context->unit(0, of_page, of_head));
    slots.Place(0, 1, 0, 0, context->unit(0, 0, 1));
    slots.Place(0, 1, 1, 5, context->unit(0, 5, 1));
    return slots.Check(wanted, *context);
  };
  EXPECT_EQ(holding(9, 9, 0), OkStatus());
  EXPECT_TRUE(IsDataLoss(holding(9, 3, 0))) << "the unit of another page";
  EXPECT_TRUE(IsDataLoss(holding(9, 9, 1))) << "the unit of another head";
  EXPECT_TRUE(IsDataLoss(holding(8, 8, 0))) << "a page that is not selected";
}

}  // namespace
}  // namespace quire::bench
