// SPDX-License-Identifier: Apache-2.0
//
// The recorded trace of the bundled model: its steps, and the pages they select from.
#include "bench/elastic/elastic_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/documents/demo_corpus.h"
#include "apps/kit/worker/local_worker.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/kit/paths.h"

namespace quire::bench {
namespace {

constexpr RecordOptions kOptions = {.questions = 2, .page_tokens = 32, .decoded_tokens = 48};
constexpr PageBudget kModelBudget = {.sink_pages = 1, .window_pages = 2, .selected_pages = 21};

class ElasticModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto traces = RecordTraces(QUIRE_BUNDLED_MODEL, kOptions, kModelBudget);
    ASSERT_TRUE(traces.ok()) << traces.status();
    ASSERT_EQ(traces->size(), 1u) << "both questions are about one document";
    traces_ = *std::move(traces);
  }
  const ModelTrace& trace() const { return traces_.front(); }

 private:
  std::vector<ModelTrace> traces_;
};

TEST_F(ElasticModelTest, EveryQuestionIsFollowedByWhatWasDecodedAndTheAnswerComesFirst) {
  EXPECT_EQ(trace().questions, kOptions.questions);
  EXPECT_EQ(trace().kinds.size(), trace().steps.size());
  auto at = trace().kinds.begin();
  const auto take = [&](StepKind kind) {
    const auto from = at;
    at = std::find_if(at, trace().kinds.end(), [&](StepKind other) { return other != kind; });
    return at - from;
  };
  for (uint32_t question = 0; question < kOptions.questions; ++question) {
    EXPECT_GT(take(StepKind::kQuestion), 0);
    const auto answer = take(StepKind::kAnswer);
    EXPECT_GT(answer, 0);
    EXPECT_EQ(answer + take(StepKind::kRunOn), kOptions.decoded_tokens);
  }
  EXPECT_EQ(at, trace().kinds.end());
}

TEST_F(ElasticModelTest, AStepSelectsPagesThatAreCompleteAndOutsideTheWindowAlsoItsOwn) {
  const auto tokenizer =
      worker::Tokenizer::Load(std::string(QUIRE_BUNDLED_MODEL) + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto corpus = cli::LoadDemoCorpus(std::string(QUIRE_BUNDLED_MODEL) + "/documents");
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  const size_t document = (*cli::DocumentTokens(*tokenizer, corpus->documents.front().text)).size();
  bool own = false;
  for (size_t step = 0; step < trace().steps.size(); ++step) {
    const size_t complete = (document + step + 1) / kOptions.page_tokens;
    for (const auto& layer : trace().steps[step]) {
      for (const auto& pages : layer) {
        ASSERT_EQ(pages.size(), kModelBudget.selected_pages);
        EXPECT_GE(pages.front(), kModelBudget.sink_pages);
        EXPECT_LT(pages.back(), complete - kModelBudget.window_pages) << "step " << step;
        own = own || pages.back() >= document / kOptions.page_tokens;
      }
    }
  }
  EXPECT_TRUE(own) << "pages of what was decoded are candidates";
}

}  // namespace
}  // namespace quire::bench
