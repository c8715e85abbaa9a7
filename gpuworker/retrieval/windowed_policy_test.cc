// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/windowed_policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "gpuworker/retrieval/token_observer.h"
#include "gpuworker/testing/random_draft.h"

namespace quire::worker {
namespace {

constexpr uint32_t kWindow = 6;
constexpr uint64_t kContext = 512;

/// A policy with a retrieval head of `mode`, and the same behind windows of the layers 0 and 2.
class WindowedPolicyTest : public ::testing::TestWithParam<HeadMode> {
 protected:
  WindowedPolicyTest() {
    PolicyContext context;
    context.spec.num_layers = 3;
    context.spec.num_query_heads = 4;
    context.spec.num_kv_heads = 2;
    context.spec.head_dim = 8;
    context.spec.page_tokens = kTokensOfPage;
    context.device = &CpuDevice();
    context.max_context_tokens = kContext;
    context.options = {.policy = "specontext",
                       .budget_tokens = 32,
                       .sink_tokens = 4,
                       .window_tokens = 8,
                       .uncompressed_layers = {}};
    context.head = &head_.weights();
    auto policy = MakePolicy(context);
    EXPECT_TRUE(policy.ok()) << policy.status();
    within_ = policy->get();
    windowed_ = std::make_unique<WindowedPolicy>(
        std::move(policy).value(), std::vector{kWindow, 0u, kWindow}, kTokensOfPage, kContext);
  }

  const quire::testing::RandomHead head_{{16, 4, 2, 8, kWords}, /*seed=*/1, GetParam()};
  RetrievalPolicy* within_ = nullptr;
  std::unique_ptr<RetrievalPolicy> windowed_;
};

TEST_P(WindowedPolicyTest, LayersHaveTheirWindowOrWhatThePolicySays) {
  const CacheLayout window = WindowLayout(kWindow, kTokensOfPage, kContext);
  EXPECT_EQ(windowed_->Layout(0), window);
  EXPECT_EQ(windowed_->Layout(1), within_->Layout(1));
  EXPECT_EQ(windowed_->Layout(2), window);
}

TEST_P(WindowedPolicyTest, PartsThatAreNotAboutLayersAreThoseOfThePolicy) {
  const bool sees_hidden = GetParam() == HeadMode::kEagle;
  EXPECT_EQ(windowed_->name(), "specontext");
  EXPECT_NE(windowed_->token_observer(), nullptr);
  EXPECT_EQ(windowed_->token_observer(), within_->token_observer());
  EXPECT_EQ(windowed_->hidden_tap() != nullptr, sees_hidden);
  EXPECT_EQ(windowed_->hidden_tap(), within_->hidden_tap());
  EXPECT_NE(windowed_->retrieval_head(), nullptr);
  EXPECT_EQ(windowed_->retrieval_head(), within_->retrieval_head());
  EXPECT_EQ(windowed_->draft_features() != nullptr, sees_hidden);
  EXPECT_EQ(windowed_->draft_features(), within_->draft_features());
  EXPECT_EQ(windowed_->most_pass_tokens() == 1, sees_hidden);
  EXPECT_EQ(windowed_->most_pass_tokens(), within_->most_pass_tokens());
  EXPECT_TRUE(windowed_->selects_ahead());
}

INSTANTIATE_TEST_SUITE_P(Heads, WindowedPolicyTest,
                         ::testing::Values(HeadMode::kTrained, HeadMode::kEagle));

}  // namespace
}  // namespace quire::worker
