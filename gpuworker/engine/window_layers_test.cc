// SPDX-License-Identifier: Apache-2.0
//
// Models with sliding windows over the store: their answers are those of the model alone, and
// window layers have the pages of their window and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/batch_fixture.h"
#include "quire/layout.h"
#include "quire/v1/session.pb.h"

namespace quire::worker {
namespace {

using quire::testing::TinyModel;
using testing::BatchTest;
using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::MaxDifference;
using testing::RandomTokens;

constexpr uint32_t kWindow = 10;
constexpr uint32_t kFullLayers = 1;

/// One layer that attends to everything, and two with a window.
TinyModel Windowed() {
  return {.architecture = Architecture::kQwen2,
          .num_layers = 3,
          .sliding_window = kWindow,
          .full_layers = kFullLayers};
}

/// Logits of every position of a question after the document, and of the model alone.
struct Answers {
  std::vector<float> stored;
  std::vector<float> alone;
  SequenceStats stats;
};

Answers Ask(EngineFixture& fixture, const std::vector<TokenId>& document,
            const std::vector<TokenId>& question, const RetrievalOptions& retrieval) {
  Answers answers;
  SequenceOptions options{.retrieval = retrieval};
  options.logits_observer = [&](uint64_t, std::span<const float> logits) {
    answers.stored.insert(answers.stored.end(), logits.begin(), logits.end());
  };
  const auto sequence = fixture.Open(options);
  EXPECT_EQ(sequence->Append(question), OkStatus());
  answers.stats = sequence->stats();
  std::vector<TokenId> all = document;
  all.insert(all.end(), question.begin(), question.end());
  answers.alone = *fixture.engine().DenseLogits(all, question.size());
  return answers;
}

class WindowLayersTest : public ::testing::TestWithParam<std::string_view> {};

// Promise 5, for models with windows.
TEST_P(WindowLayersTest, ACoveringBudgetEqualsTheModelAlone) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    TinyModel model = Windowed();
    model.sliding_window = static_cast<uint32_t>(1 + seed * 5);
    model.seed = seed + 1;
    EngineFixture fixture(model);
    const std::vector<TokenId> document = RandomTokens(50 + seed * 3, seed);
    fixture.Ingest(document);
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = GetParam();
    retrieval.budget_tokens = 128;
    const Answers answers = Ask(fixture, document, RandomTokens(25, seed + 100), retrieval);
    EXPECT_LE(MaxDifference(answers.stored, answers.alone), 1e-3f);
  }
}

TEST_P(WindowLayersTest, NothingIsRecalledForAWindow) {
  EngineFixture fixture(Windowed());
  std::set<uint32_t> recalled;
  fixture.WatchRecalls([&](const v1::RecallRequest& request, Priority) {
    for (const auto& want : request.wants()) {
      recalled.insert(want.first_layer() + std::max(1u, want.num_layers()) - 1);
    }
    return false;
  });
  const std::vector<TokenId> document = RandomTokens(61, 1);
  fixture.Ingest(document);
  RetrievalOptions retrieval = EngineFixture::Small().retrieval;
  retrieval.policy = GetParam();
  const Answers answers = Ask(fixture, document, RandomTokens(25, 2), retrieval);
  for (const uint32_t layer : recalled) EXPECT_LT(layer, kFullLayers);
}

INSTANTIATE_TEST_SUITE_P(Policies, WindowLayersTest, ::testing::ValuesIn(AllPolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

TEST(WindowLayersTest, OnlyPagesOfTheWindowAreReadAtTheStart) {
  TinyModel model = Windowed();
  model.architecture = Architecture::kMistral;  // Every layer has a window.
  EngineFixture fixture(model);
  const std::vector<TokenId> document = RandomTokens(61, 1);
  fixture.Ingest(document);
  const Answers answers =
      Ask(fixture, document, RandomTokens(25, 2), EngineFixture::Small().retrieval);
  EXPECT_LE(MaxDifference(answers.stored, answers.alone), 1e-3f);
  // Tokens 51 to 60: pages 12 to 15 of 0 to 15.
  const uint64_t page = ExtentBytes(fixture.engine().spec(), 1);
  EXPECT_EQ(answers.stats.moved.at_open, model.num_layers * 4 * page);
  EXPECT_EQ(answers.stats.moved.digests, 0u);
  EXPECT_EQ(answers.stats.moved.units, 0u);
  EXPECT_EQ(answers.stats.selections, 0u);
  EXPECT_EQ(answers.stats.resident_tokens, kWindow);
}

TEST(WindowLayersTest, APromptWithoutADocumentIsThatOfTheModelAlone) {
  for (const std::string_view policy : {"full", "streaming", "freekv"}) {
    SCOPED_TRACE(policy);
    EngineFixture fixture(Windowed());
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = policy;
    retrieval.budget_tokens = 256;
    retrieval.window_tokens = 128;
    const auto sequence = *fixture.engine().OpenSequence(std::nullopt, {.retrieval = retrieval});
    std::vector<TokenId> text = RandomTokens(70, 5);
    ASSERT_EQ(sequence->Append(text), OkStatus());
    const auto generation = sequence->Generate({.max_new_tokens = 20});
    ASSERT_TRUE(generation.ok()) << generation.status();
    for (const TokenId token : generation->tokens) {
      const auto alone = fixture.engine().DenseLogits(text, 1);
      EXPECT_EQ(std::ranges::max_element(*alone) - alone->begin(), token);
      text.push_back(token);
    }
  }
}

TEST(WindowLayersTest, PromptsOverSeveralDocumentsAreRefused) {
  EngineFixture fixture(Windowed());
  fixture.Ingest(RandomTokens(20, 1));
  const DocumentName name{.name = "doc"};
  const auto run = fixture.engine().OpenReuse({&name, 1}, RandomTokens(4, 2), {});
  EXPECT_EQ(run.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("see the last 10 tokens only"));
}

class WindowLayersBatchTest : public BatchTest {
 protected:
  WindowLayersBatchTest()
      : BatchTest(&CpuDevice(), EngineFixture::Small(), /*document_tokens=*/61, Windowed()) {}
};

TEST_F(WindowLayersBatchTest, EverySequenceGeneratesWhatItGeneratesAlone) {
  std::vector<BatchRequest> requests;
  uint64_t seed = 10;
  for (const std::string_view policy : {"full", "streaming", "quest", "freekv", "specontext"}) {
    requests.push_back(
        Request(seed, 1 + seed % 23, static_cast<uint32_t>(5 + seed % 9), Retrieval(policy)));
    ++seed;
  }
  requests.push_back({.prompt = RandomTokens(30, 99), .params = {.max_new_tokens = 12}});
  const auto batch = Make({.max_running = 3, .step_tokens = 20});
  ExpectAsAlone(*batch, requests);
}

}  // namespace
}  // namespace quire::worker
