// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of RetrievalPolicy: what holds whatever a policy selects. Instantiate with a
// name for each policy:
//
//   INSTANTIATE_TEST_SUITE_P(Quest, PolicyConformance, ::testing::Values("quest"));
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICY_CONFORMANCE_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICY_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/retrieval/key_source.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/retrieval/token_observer.h"
#include "gpuworker/testing/random_draft.h"
#include "quire/layout.h"

namespace quire::worker {

class PolicyConformance : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr uint32_t kPages = 40;

  PolicyConformance() {
    context_.spec.model = "conformance";
    context_.spec.dtype = DType::kF32;
    context_.spec.num_layers = 3;
    context_.spec.num_query_heads = 6;
    context_.spec.num_kv_heads = 2;
    context_.spec.head_dim = 8;
    context_.spec.page_tokens = 4;
    context_.device = &CpuDevice();
    context_.max_context_tokens = 1024;
    context_.head = &head_.weights();
    context_.options = {.policy = GetParam(),
                        .budget_tokens = 48,
                        .sink_tokens = 4,
                        .window_tokens = 12,
                        .uncompressed_layers = {1}};
  }

  std::unique_ptr<RetrievalPolicy> Make() {
    auto policy = MakePolicy(context_);
    EXPECT_TRUE(policy.ok()) << policy.status();
    return std::move(policy).value();
  }
  /// Shows as many random tokens as the pages have.
  void ShowTokens(RetrievalPolicy& policy) const {
    TokenObserver* const observer = policy.token_observer();
    if (observer == nullptr) return;
    SeededRandom random(8);
    std::vector<TokenId> tokens(size_t{kPages} * context_.spec.page_tokens);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Next() % kVocabulary);
    observer->OnTokens(tokens);
  }

  /// A policy that has seen pages 0 .. kPages-1 of random keys become complete.
  std::unique_ptr<RetrievalPolicy> MakeWithPages() {
    auto policy = Make();
    ShowTokens(*policy);
    SeededRandom random(7);
    std::vector<float> units(context_.spec.num_kv_heads * UnitBytes(context_.spec) / sizeof(float));
    PageObserver* const observer = policy->page_observer();
    for (uint32_t layer = 0; observer != nullptr && layer < context_.spec.num_layers; ++layer) {
      EXPECT_EQ(observer->OnPrefillLayer(layer, 0, {}), OkStatus());
      for (uint32_t page = 0; page < kPages; ++page) {
        for (float& value : units) value = random.Normal();
        EXPECT_EQ(observer->OnPageComplete(layer, page, units.data()), OkStatus());
      }
    }
    return policy;
  }

  std::vector<float> Query(uint64_t seed) const {
    SeededRandom random(seed);
    std::vector<float> q(size_t{context_.spec.num_query_heads} * context_.spec.head_dim);
    for (float& value : q) value = random.Normal();
    return q;
  }

  static Selection Select(RetrievalPolicy& policy, uint32_t layer, const std::vector<float>& q,
                          PageRange candidates) {
    auto selection = policy.Select({.layer = layer,
                                    .q = q.data(),
                                    .candidates = candidates,
                                    .max_pages = policy.Layout(layer).most_selected(),
                                    .position = uint64_t{kPages} * 4});
    EXPECT_TRUE(selection.ok()) << selection.status();
    return std::move(selection).value();
  }

  static constexpr uint32_t kVocabulary = 50;
  const testing::RandomHead head_{{16, 6, 2, 8, kVocabulary}};
  PolicyContext context_;
};

TEST_P(PolicyConformance, HasItsRegisteredName) { EXPECT_EQ(Make()->name(), GetParam()); }

TEST_P(PolicyConformance, LayoutsStayWithinTheBudget) {
  const auto policy = Make();
  for (uint32_t layer = 0; layer < context_.spec.num_layers; ++layer) {
    const CacheLayout layout = policy->Layout(layer);
    EXPECT_TRUE(layer != 1 || layout.everything) << "layer 1 is not to be compressed";
    if (layout.everything) continue;
    EXPECT_GE(layout.window_pages, 2u);
    EXPECT_GE(layout.num_slots() * context_.spec.page_tokens, context_.options.budget_tokens);
    if (GetParam() != "razor") {  // Some of its heads keep everything.
      EXPECT_EQ(layout.num_slots() * context_.spec.page_tokens, context_.options.budget_tokens);
    }
    EXPECT_EQ(layout.sink_pages * context_.spec.page_tokens, context_.options.sink_tokens);
  }
}

TEST_P(PolicyConformance, LayersWithSlotsHaveAsMany) {
  const auto policy = Make();
  const uint32_t slots = policy->Layout(0).selectable_pages;
  for (uint32_t layer = 0; layer < context_.spec.num_layers; ++layer) {
    const CacheLayout layout = policy->Layout(layer);
    if (layout.everything || layout.selectable_pages == 0) continue;
    EXPECT_EQ(layout.selectable_pages, slots) << "a sequence has one number for all lanes";
  }
}

TEST_P(PolicyConformance, GivesTheKeysThatItDoesNotHaveRecalled) {
  const auto policy = MakeWithPages();
  if (policy->key_source() == nullptr) return;
  const float missing = std::numeric_limits<float>::quiet_NaN();
  for (uint32_t layer = 0; layer < context_.spec.num_layers; ++layer) {
    if (policy->Layout(layer).selectable_pages == 0) continue;
    for (uint32_t page = 0; page < kPages; ++page) {
      std::vector<float> keys(UnitBytes(context_.spec) / sizeof(float) / 2, missing);
      policy->key_source()->FillKeys(layer, 0, page, std::as_writable_bytes(std::span(keys)));
      EXPECT_TRUE(std::ranges::none_of(keys, [](float key) { return std::isnan(key); })) << page;
    }
  }
}

TEST_P(PolicyConformance, SelectsDistinctCandidatesInOrderAndNoMoreThanThereAreSlots) {
  const auto policy = MakeWithPages();
  for (uint32_t layer = 0; layer < context_.spec.num_layers; ++layer) {
    const uint32_t slots = policy->Layout(layer).selectable_pages;
    if (slots == 0) continue;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const PageRange candidates{1, static_cast<uint32_t>(2 + seed * 2)};
      const Selection selection = Select(*policy, layer, Query(seed), candidates);
      if (selection.at_server) continue;
      ASSERT_EQ(selection.pages.size(), context_.spec.num_kv_heads);
      for (const std::vector<uint32_t>& pages : selection.pages) {
        EXPECT_LE(pages.size(), slots);
        EXPECT_TRUE(std::is_sorted(pages.begin(), pages.end()));
        EXPECT_EQ(std::adjacent_find(pages.begin(), pages.end()), pages.end());
        for (uint32_t page : pages) EXPECT_TRUE(candidates.contains(page)) << page;
      }
    }
  }
}

TEST_P(PolicyConformance, SelectsAsManyPagesWhenNoScoreIsANumber) {
  const auto policy = MakeWithPages();
  if (policy->Layout(0).selectable_pages == 0) return;
  const PageRange candidates{1, kPages};
  const Selection usual = Select(*policy, 0, Query(1), candidates);
  EXPECT_EQ(usual.nan_scores, 0u);
  const Selection selection =
      Select(*policy, 0, std::vector<float>(Query(1).size(), NAN), candidates);
  ASSERT_EQ(selection.pages.size(), usual.pages.size());
  for (size_t head = 0; head < usual.pages.size(); ++head) {
    const std::vector<uint32_t>& pages = selection.pages[head];
    EXPECT_EQ(pages.size(), usual.pages[head].size());
    EXPECT_TRUE(std::is_sorted(pages.begin(), pages.end()));
    EXPECT_EQ(std::adjacent_find(pages.begin(), pages.end()), pages.end());
    for (uint32_t page : pages) EXPECT_TRUE(candidates.contains(page)) << page;
  }
}

TEST_P(PolicyConformance, SelectsEverythingThatFits) {
  const auto policy = MakeWithPages();
  for (uint32_t layer = 0; layer < context_.spec.num_layers; ++layer) {
    const CacheLayout layout = policy->Layout(layer);
    if (layout.selectable_pages == 0) continue;
    const uint32_t budget = context_.options.budget_tokens / context_.spec.page_tokens;
    const uint32_t slots = budget - layout.sink_pages - layout.window_pages;
    std::vector<uint32_t> all(slots);
    std::iota(all.begin(), all.end(), 1);
    const Selection selection = Select(*policy, layer, Query(1), {1, 1 + slots});
    EXPECT_FALSE(selection.at_server) << "there is nothing to choose";
    for (const auto& pages : selection.pages) EXPECT_EQ(pages, all);
  }
}

TEST_P(PolicyConformance, SelectsNothingFromNothing) {
  const auto policy = MakeWithPages();
  const Selection selection = Select(*policy, 0, Query(1), {1, 1});
  EXPECT_FALSE(selection.at_server);
  for (const auto& pages : selection.pages) EXPECT_TRUE(pages.empty());
}

TEST_P(PolicyConformance, TheSameQuerySelectsTheSamePages) {
  const auto one = MakeWithPages();
  const auto two = MakeWithPages();
  const std::vector<float> q = Query(5);
  EXPECT_EQ(Select(*one, 0, q, {1, kPages}).pages, Select(*two, 0, q, {1, kPages}).pages);
}

TEST_P(PolicyConformance, AnswersBlockingForEveryHead) {
  const auto policy = MakeWithPages();
  const std::vector<float> q = Query(5);
  const auto blocking = policy->NeedsBlocking(
      {.q = q.data(), .candidates = {1, kPages}, .max_pages = policy->Layout(0).most_selected()});
  ASSERT_TRUE(blocking.ok()) << blocking.status();
  EXPECT_EQ(blocking->size(), context_.spec.num_kv_heads);
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICY_CONFORMANCE_H_
