// SPDX-License-Identifier: Apache-2.0
//
// Attention of freekv at the ends of its threshold: below every cosine what quest selected a
// step ago, above every cosine what quest selects. Pages and logits, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
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

// The reference is a sequence.
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

/// Largest difference of the logits of each step.
std::vector<float> Errors(const std::vector<FollowedStep>& steps,
                          const std::vector<FollowedStep>& exact) {
  std::vector<float> errors;
  for (size_t i = 0; i < steps.size(); ++i) {
    errors.push_back(testing::MaxDifference(steps[i].logits, exact[i].logits));
  }
  return errors;
}

/// A question whose queries turn as its tokens do, or, where one token is said again and again,
/// only with their positions.
struct LateQuestion {
  const char* name;
  std::vector<TokenId> tokens;
  float threshold;  ///< Threshold of the correction; -1.5 never corrects.
};
class LateSpeculationTest : public ::testing::TestWithParam<LateQuestion> {};

// Promise 8, over a link that is too slow for every step. Queries of a single layer do not depend
// on attention, so each step is compared with selections of a known age.
TEST_P(LateSpeculationTest, ARecallThatIsAlwaysLateCostsTheErrorOfOneStepMore) {
  EngineFixture fixture{TinyModel{.num_layers = 1, .num_query_heads = 6, .seed = 3}};
  fixture.Ingest(RandomTokens(61, 7));
  const std::vector<TokenId>& question = GetParam().tokens;
  const std::vector<FollowedStep> exact = FollowedRun(fixture, Options("quest")).Steps(question);
  std::vector<std::vector<float>> delayed;
  for (const size_t age : {1u, 2u}) {
    FollowedRun run(fixture, Options("quest"));
    run.Wrap([&](std::unique_ptr<RetrievalPolicy> quest) {
      return std::make_unique<DelayedPolicy>(std::move(quest), age);
    });
    delayed.push_back(Errors(run.Steps(question), exact));
  }

  RetrievalOptions options = Options("freekv", GetParam().threshold);
  options.recall_deadline = std::chrono::milliseconds(1);
  fixture.DelayRecalls(std::chrono::milliseconds(50));
  FollowedRun run(fixture, options);
  const std::vector<FollowedStep> late = run.Steps(question);
  const std::vector<float> errors = Errors(late, exact);
  const uint64_t late_recalls = run.recalls().late_prefetches + run.recalls().late_corrections;
  EXPECT_GT(late_recalls, question.size() / 8);
  for (size_t i = 2; i < late.size(); ++i) {
    SCOPED_TRACE(i);
    for (size_t head = 0; head < late[i].pages[0].size(); ++head) {
      const auto selected = [&](size_t step) { return exact[step].pages[0][head]; };
      const auto& pages = late[i].pages[0][head];
      EXPECT_TRUE(pages == selected(i) || pages == selected(i - 1) || pages == selected(i - 2));
    }
    // Pages that lie in other slots are added up in another order.
    EXPECT_LE(errors[i], std::max(delayed[0][i], delayed[1][i]) * (1 + 1e-5f));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Questions, LateSpeculationTest,
    ::testing::Values(LateQuestion{"TurnsFast", RandomTokens(50, 8), -1.5f},
                      LateQuestion{"TurnsFastAndIsCorrected", RandomTokens(50, 8), 0.4f},
                      LateQuestion{"TurnsSlowly", std::vector<TokenId>(50, 11), -1.5f},
                      LateQuestion{"TurnsSlowlyAndIsCorrected", std::vector<TokenId>(50, 11),
                                   0.9f}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(DocumentTokens, SpeculationTest, ::testing::Values(10, 61));

}  // namespace
}  // namespace quire::worker
