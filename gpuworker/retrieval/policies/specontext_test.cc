// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/specontext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/head/head_selection.h"
#include "gpuworker/model/hidden_tap.h"
#include "gpuworker/retrieval/token_observer.h"
#include "gpuworker/testing/random_draft.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWords = 40, kTokensOfPage = 4;

class SpeContextTest : public ::testing::Test {
 protected:
  SpeContextTest() {
    context_.spec.num_layers = 3;
    context_.spec.num_query_heads = 4;
    context_.spec.num_kv_heads = 2;
    context_.spec.head_dim = 8;
    context_.spec.page_tokens = kTokensOfPage;
    context_.device = &CpuDevice();
    context_.max_context_tokens = 512;
    context_.options = {.policy = "specontext",
                        .budget_tokens = 32,
                        .sink_tokens = 4,
                        .window_tokens = 8,
                        .uncompressed_layers = {},
                        .selection_memory = 1};
    context_.head = &head_.weights();
    SeededRandom random(4);
    for (int i = 0; i < 100; ++i) tokens_.push_back(static_cast<TokenId>(random.Next() % kWords));
  }
  std::unique_ptr<RetrievalPolicy> MakeSpeContext() const {
    auto policy = MakePolicy(context_);
    EXPECT_TRUE(policy.ok()) << policy.status();
    return std::move(policy).value();
  }
  static std::vector<std::vector<uint32_t>> PagesOf(RetrievalPolicy& policy, uint32_t layer,
                                                    uint64_t position) {
    const auto selection = policy.Select(
        {.layer = layer, .candidates = {1, 20}, .max_pages = 5, .position = position});
    EXPECT_TRUE(selection.ok()) << selection.status();
    return selection.ok() ? selection->pages : std::vector<std::vector<uint32_t>>();
  }
  Status FailureOf() const { return MakePolicy(context_).status(); }

  const quire::testing::RandomHead head_{{16, 4, 2, 8, kWords}};
  PolicyContext context_;
  std::vector<TokenId> tokens_;
};

TEST_F(SpeContextTest, PagesOfTheHeadsHeaviestTokensServeEveryLayer) {
  const auto policy = MakeSpeContext();
  policy->token_observer()->OnTokens(tokens_);
  RetrievalHead head(&head_.weights(), 512);
  ASSERT_EQ(head.Append(tokens_), OkStatus());
  for (const uint64_t position : {100, 93, 90}) {
    const auto weights = head.Weights(position - 1);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const std::vector<float> groups = GroupWeights(*weights, 4, 2, 2);
    std::vector<std::vector<uint32_t>> wanted;
    for (size_t kv = 0; kv < 2; ++kv) {
      const auto pages = PageWeights(std::span(groups).subspan(kv * position, position), 4);
      wanted.push_back(SelectPlaces(std::span(pages).subspan(1, 19), {.budget = 5}));
      for (uint32_t& page : wanted.back()) ++page;
    }
    for (uint32_t layer = 0; layer < 3; ++layer) {
      EXPECT_EQ(PagesOf(*policy, layer, position), wanted) << position << ", layer " << layer;
    }
  }
}

// Passes of any sizes, and layers one after the other, as a prompt runs.
TEST_F(SpeContextTest, TokensOfOtherPassesSelectTheSame) {
  const auto at_once = MakeSpeContext(), in_passes = MakeSpeContext();
  at_once->token_observer()->OnTokens(tokens_);
  const std::span<const TokenId> tokens(tokens_);
  in_passes->token_observer()->OnTokens(tokens.first(82));
  in_passes->token_observer()->OnTokens(tokens.subspan(82, 1));
  in_passes->token_observer()->OnTokens(tokens.subspan(83, 5));
  for (uint32_t layer = 0; layer < 3; ++layer) {
    for (uint64_t position = 84; position <= 88; ++position) {
      EXPECT_EQ(PagesOf(*in_passes, layer, position), PagesOf(*at_once, layer, position));
    }
  }
  in_passes->token_observer()->OnTokens(tokens.subspan(88));
  EXPECT_EQ(PagesOf(*in_passes, 0, 100), PagesOf(*at_once, 0, 100));
}

// Each token's own weights, faded by its distance.
TEST_F(SpeContextTest, ASelectionLooksBackOnTheTokensBefore) {
  context_.options.selection_memory = 3;
  const auto at_once = MakeSpeContext(), one_by_one = MakeSpeContext();
  at_once->token_observer()->OnTokens(tokens_);
  RetrievalHead head(&head_.weights(), 512);
  ASSERT_EQ(head.Append(tokens_), OkStatus());
  const auto weights_at = [&](uint64_t position, size_t kv) {
    const std::vector<float> groups = GroupWeights(*head.Weights(position - 1), 4, 2, 2);
    return PageWeights(std::span(groups).subspan(kv * position, position), 4);
  };
  one_by_one->token_observer()->OnTokens(std::span(tokens_).first(90));
  for (uint64_t position = 91; position <= 100; ++position) {
    one_by_one->token_observer()->OnTokens(std::span(tokens_).subspan(position - 1, 1));
    const auto selected = PagesOf(*one_by_one, 0, position);
    EXPECT_EQ(selected, PagesOf(*at_once, 0, position)) << position;
    for (size_t kv = 0; kv < 2; ++kv) {
      std::vector<float> weights = weights_at(position, kv);
      float fade = 1;
      for (uint64_t back = 1; back < 3; ++back) {
        fade *= 0.9f;
        const std::vector<float> before = weights_at(position - back, kv);
        for (size_t page = 0; page < before.size(); ++page) {
          weights[page] = std::max(weights[page], fade * before[page]);
        }
      }
      auto wanted = SelectPlaces(std::span(weights).subspan(1, 19), {.budget = 5});
      for (uint32_t& page : wanted) ++page;
      EXPECT_EQ(selected.at(kv), wanted) << position;
    }
  }
  context_.options.selection_memory = 0;
  EXPECT_THAT(std::string(FailureOf().message()), HasSubstr("selection_memory is 0"));
}

// The features of a token are the hidden states of the token before, which ran in the pass before.
TEST_F(SpeContextTest, AHeadThatSeesHiddenStatesSelectsByThoseOfTheTokensBefore) {
  const quire::testing::RandomHead eagle({16, 4, 2, 8, kWords}, 1, HeadMode::kEagle, 3);
  context_.head = &eagle.weights();
  const auto policy = MakeSpeContext();
  HiddenTap* const tap = policy->hidden_tap();
  ASSERT_NE(tap, nullptr);
  EXPECT_EQ(policy->most_pass_tokens(), 1u);
  SeededRandom random(5);
  std::vector<float> hidden(3 * tokens_.size() * 16);  // [layers][tokens][h]
  for (float& value : hidden) value = random.Normal();
  const auto rows = [&](size_t layer, size_t token, size_t count) {
    return std::span(hidden).subspan((layer * tokens_.size() + token) * 16, count * 16);
  };
  const auto pass = [&](size_t first, size_t count) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      if (tap->Wants(layer)) tap->Take(layer, rows(layer, first, count));
    }
  };
  // By definition, from all features at once.
  std::vector<float> features(3 * 16);
  for (size_t token = 0; token + 1 < tokens_.size(); ++token) {
    for (const uint32_t layer : eagle.weights().feature_layers) {
      features.insert(features.end(), rows(layer, token, 1).begin(), rows(layer, token, 1).end());
    }
  }
  RetrievalHead head(&eagle.weights(), 512);
  ASSERT_EQ(head.Append(tokens_, features), OkStatus());
  policy->token_observer()->OnTokens(std::span(tokens_).first(90));  // A document, in two passes.
  pass(0, 60);
  pass(60, 30);
  for (uint64_t position = 91; position <= 100; ++position) {
    policy->token_observer()->OnTokens(std::span(tokens_).subspan(position - 1, 1));
    const auto weights = head.Weights(position - 1);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const std::vector<float> groups = GroupWeights(*weights, 4, 2, 2);
    const auto selected = PagesOf(*policy, 0, position);
    for (size_t kv = 0; kv < 2; ++kv) {
      const auto pages = PageWeights(std::span(groups).subspan(kv * position, position), 4);
      auto wanted = SelectPlaces(std::span(pages).subspan(1, 19), {.budget = 5});
      for (uint32_t& page : wanted) ++page;
      EXPECT_EQ(selected.at(kv), wanted) << position;
    }
    pass(position - 1, 1);
  }
  policy->token_observer()->OnTokens(std::span(tokens_).first(2));
  EXPECT_FALSE(policy->Select({.candidates = {1, 20}, .max_pages = 5, .position = 102}).ok())
      << "the first of them has not run";
}

TEST_F(SpeContextTest, WithoutAHeadItIsRefused) {
  context_.options.side = SelectionSide::kServer;
  EXPECT_EQ(FailureOf().code(), StatusCode::kInvalidArgument);
  context_.options.side = SelectionSide::kWorker;
  context_.head = nullptr;
  EXPECT_EQ(FailureOf().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(FailureOf().message()), HasSubstr("needs a retrieval head"));
}

}  // namespace
}  // namespace quire::worker
