// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/specontext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpuworker/head/head_selection.h"
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
                        .uncompressed_layers = {}};
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

  const testing::RandomHead head_{{16, 4, 2, 8, kWords}};
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

TEST_F(SpeContextTest, WithoutAHeadOrWithHiddenStatesItIsRefused) {
  context_.options.side = SelectionSide::kServer;
  EXPECT_EQ(FailureOf().code(), StatusCode::kInvalidArgument);
  context_.options.side = SelectionSide::kWorker;
  HeadWeights eagle = head_.weights();
  eagle.mode = HeadMode::kEagle;
  context_.head = &eagle;
  EXPECT_THAT(std::string(FailureOf().message()), HasSubstr("embed_only"));
  context_.head = nullptr;
  EXPECT_EQ(FailureOf().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(FailureOf().message()), HasSubstr("needs a retrieval head"));
}

}  // namespace
}  // namespace quire::worker
