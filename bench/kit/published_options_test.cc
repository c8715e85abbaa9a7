// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/published_options.h"

#include <gtest/gtest.h>

#include <string>

#include "gpuworker/retrieval/policy.h"

namespace quire::bench {
namespace {

constexpr uint32_t kTokensOfPage = 16;

// Only the budget of the common options counts; their score and recall options do not.
TEST(PublishedOptionsTest, OnlyTheBudgetIsCommon) {
  const worker::RetrievalOptions common{.budget_tokens = 320,
                                        .select_tokens = 64,
                                        .sink_tokens = 16,
                                        .window_tokens = 48,
                                        .uncompressed_layers = {2},
                                        .pooling = kernels::Pooling::kMaxQ,
                                        .correction_threshold = 0.1f,
                                        .key_rank = 7,
                                        .recall_buffers = 1};
  for (const std::string_view name : worker::PolicyNames()) {
    SCOPED_TRACE(name);
    const std::string policy(name);
    const auto options = PublishedWithin(common, policy, kTokensOfPage);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->policy, policy);
    EXPECT_EQ(options->budget_tokens, common.budget_tokens);
    EXPECT_EQ(options->select_tokens, common.select_tokens);
    EXPECT_EQ(options->sink_tokens, common.sink_tokens);
    EXPECT_EQ(options->window_tokens, common.window_tokens);
    EXPECT_EQ(options->uncompressed_layers, common.uncompressed_layers);
    const auto published = worker::AsPublished({.policy = policy}, kTokensOfPage);
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(options->pooling, published->pooling);
    EXPECT_EQ(options->recall_layout, published->recall_layout);
    EXPECT_EQ(options->key_rank, published->key_rank);
    EXPECT_EQ(options->correction_threshold, published->correction_threshold);
    EXPECT_EQ(options->recall_buffers, published->recall_buffers);
  }
}

TEST(PublishedOptionsTest, QuestPoolsByTheMaximumAndFreeKvByTheMeanOfSoftmaxes) {
  EXPECT_EQ(PublishedWithin({}, "quest", kTokensOfPage)->pooling, kernels::Pooling::kMaxS);
  EXPECT_EQ(PublishedWithin({}, "freekv", kTokensOfPage)->pooling, kernels::Pooling::kAvgSM);
}

TEST(PublishedOptionsTest, AnUnknownPolicyIsRefused) {
  EXPECT_EQ(PublishedWithin({}, "best", kTokensOfPage).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::bench
