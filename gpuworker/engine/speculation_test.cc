// SPDX-License-Identifier: Apache-2.0
//
// What freekv attends to at the ends of its threshold: below every cosine what quest selected a
// step ago, above every cosine what quest selects. Pages and logits, bit for bit.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "gpuworker/testing/delayed_policy.h"
#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/followed_run.h"

namespace quire::worker {
namespace {

using quire::testing::TinyModel;
using testing::DelayedPolicy;
using testing::EngineFixture;
using testing::FollowedRun;
using testing::FollowedStep;
using testing::RandomTokens;

constexpr uint32_t kLayers = 3;

RetrievalOptions Options(const char* policy, float threshold = 0) {
  RetrievalOptions options = EngineFixture::Small().retrieval;
  options.policy = policy;
  options.correction_threshold = threshold;
  return options;
}

/// Two shapes, and documents that are over the budget from the start and that get there later.
class SpeculationTest : public ::testing::TestWithParam<size_t> {
 protected:
  SpeculationTest() { fixture_.Ingest(RandomTokens(GetParam(), 7)); }

  EngineFixture fixture_{TinyModel{
      .num_layers = kLayers, .num_query_heads = GetParam() % 2 == 0 ? 2u : 6u, .seed = GetParam()}};
  const std::vector<TokenId> question_ = RandomTokens(50, 8);
};

TEST_P(SpeculationTest, WithoutCorrectionsItIsBlockingSelectionOneStepStale) {
  const std::vector<FollowedStep> steps =
      FollowedRun(fixture_, Options("freekv", -1.5f)).Steps(question_);

  FollowedRun delayed_run(fixture_, Options("quest"));
  DelayedPolicy* delayed = nullptr;
  delayed_run.Wrap([&](std::unique_ptr<RetrievalPolicy> quest) {
    auto policy = std::make_unique<DelayedPolicy>(std::move(quest));
    delayed = policy.get();
    return policy;
  });
  const std::vector<FollowedStep> expected = delayed_run.Steps(question_);

  for (size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(steps[i].pages, expected[i].pages);
    EXPECT_EQ(steps[i].logits, expected[i].logits);
  }
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    SCOPED_TRACE(layer);
    const auto& selected = delayed->undelayed(layer);
    const size_t first = selected.size() - delayed->delayed(layer);
    size_t stale = 0;
    for (size_t i = first; i < steps.size(); ++i) {
      EXPECT_EQ(steps[i].pages[layer], selected[i - 1]) << "step " << i;
      stale += selected[i] != selected[i - 1] ? 1 : 0;
    }
    EXPECT_GT(stale, 5u) << "steps whose own query selects other pages";
    // Until there is a choice, and at the first step that has one, a step attends to its own.
    ASSERT_GE(first, 1u);
    for (size_t i = 0; i < first; ++i) EXPECT_EQ(steps[i].pages[layer], selected[i]);
  }
}

TEST_P(SpeculationTest, WithEveryHeadCorrectedItIsBlockingSelection) {
  const std::vector<FollowedStep> steps =
      FollowedRun(fixture_, Options("freekv", 1.5f)).Steps(question_);
  const std::vector<FollowedStep> expected =
      FollowedRun(fixture_, Options("quest")).Steps(question_);
  for (size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(steps[i].pages, expected[i].pages);
    EXPECT_EQ(steps[i].logits, expected[i].logits);
  }
}

// What is followed is what a sequence does.
TEST_P(SpeculationTest, ASequenceHasTheSameLogits) {
  for (const float threshold : {-1.5f, 0.4f, 1.5f}) {
    SCOPED_TRACE(threshold);
    SequenceOptions options;
    options.retrieval = Options("freekv", threshold);
    const auto sequence = fixture_.Open(options);
    FollowedRun run(fixture_, *options.retrieval);
    for (const TokenId token : question_) {
      ASSERT_EQ(sequence->Append({&token, 1}), OkStatus());
      const std::span<const float> logits = sequence->logits();
      ASSERT_EQ(run.Next(token).logits, std::vector<float>(logits.begin(), logits.end()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DocumentTokens, SpeculationTest, ::testing::Values(10, 61));

}  // namespace
}  // namespace quire::worker
