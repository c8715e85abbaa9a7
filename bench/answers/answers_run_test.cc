// SPDX-License-Identifier: Apache-2.0
//
// Conversations with the bundled model over a store in this process.
#include "bench/answers/answers_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/answers/answers_calibration.h"
#include "bench/answers/calibrate_threshold.h"
#include "bench/answers/dossier.h"
#include "kvserver/embedded/embedded_store.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::bench {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint32_t kKvHeads = 2;
constexpr char kText[] =
    "The old mill was near the river. A bright lamp was behind the door. In Walbury the farmer "
    "opened a gate.";

const Fact kFacts[] = {
    {"Alice Brown has home", "Harrowgate"},          {"Boris Archer has colour", "crimson"},
    {"Clara Dixon has instrument", "flute"},         {"Edgar Fisher has office", "Millford"},
    {"Fiona Harper has employer", "Falcon Brewery"}, {"Gustav Lambert has locker", "28"}};
constexpr size_t kOrder[] = {3, 0, 5, 2, 4, 1, 0, 3, 2, 5, 1, 4};

/// The facts arrive in the sequence itself and are asked for twice.
Conversation AskTwice() {
  Conversation conversation{.set = kLongSet, .context_tokens = 180, .questions = {}};
  for (const size_t i : kOrder) {
    conversation.questions.push_back(
        {.reads = {}, .prompt = kFacts[i].Prompt(), .answer = kFacts[i].Answer(), .place = {}});
  }
  for (const Fact& fact : kFacts) {
    conversation.questions[0].reads += " " + fact.key + fact.Answer();
  }
  return conversation;
}

class AnswerRunTest : public ::testing::Test {
 protected:
  AnswerRunTest()
      : store_(EmbeddedStore::Open({.data_dir = dir_.path(), .dram_bytes = 16 << 20}).value()),
        client_(Client::Create({.transport = store_->transport()}).value()) {
    worker::EngineOptions options;
    options.page_tokens = 16;
    local_ = cli::LoadLocalWorker(QUIRE_BUNDLED_MODEL, client_.get(), options).value();
  }

  static std::vector<AskedDocument> Documents(Conversation conversation) {
    return {{.name = "short", .text = kText, .conversations = {std::move(conversation)}}};
  }
  StatusOr<AnswerResults> Run(Conversation conversation, std::span<const AnswerCell> cells) {
    const std::vector<AskedDocument> documents = Documents(std::move(conversation));
    return AnswerRun(local_, *client_, documents, cells, 2).Run();
  }
  StatusOr<AnswerResults> Run(Conversation conversation) {
    const std::vector<std::string> policies = {"quest"};
    const std::vector<double> budgets = {50};
    return Run(std::move(conversation), MakeCells(policies, budgets));
  }

  uint64_t AnswerTokens(const Conversation& conversation) const {
    uint64_t tokens = 0;
    for (const Question& question : conversation.questions) {
      tokens += (*local_.tokenizer->Encode(question.answer)).size();
    }
    return tokens;
  }

  testing::TempDir dir_;
  std::unique_ptr<EmbeddedStore> store_;
  std::unique_ptr<Client> client_;
  cli::LocalWorker local_;
};

TEST_F(AnswerRunTest, OnlyAnswersAreGeneratedWherePromptsAreAppendedWhole) {
  const Conversation conversation = AskTwice();
  const auto results = Run(conversation);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->cells.size(), 2u);
  const CellAnswers& full = results->cells[0];
  EXPECT_THAT(full.right, Each(1));
  EXPECT_EQ(full.costs.at(kLongSet).generated, AnswerTokens(conversation));
}

TEST_F(AnswerRunTest, TheModelBeginsLinesItselfAndItsOwnPagesAreRecalled) {
  Conversation conversation = AskTwice();
  conversation.line_start = kLineStart;
  const auto results = Run(conversation);
  ASSERT_TRUE(results.ok()) << results.status();
  const CellAnswers& full = results->cells[0];
  EXPECT_THAT(full.right, Each(1));
  const uint64_t lines = conversation.questions.size();
  const uint64_t line_start_tokens = (*local_.tokenizer->Encode(kLineStart)).size();
  EXPECT_EQ(line_start_tokens, 3u);
  // A wrong line start ends with its first token.
  const uint64_t generated = full.costs.at(kLongSet).generated - AnswerTokens(conversation);
  EXPECT_GT(generated, lines * 2);
  EXPECT_LE(generated, lines * line_start_tokens);
  EXPECT_GT(full.costs.at(kLongSet).steps, full.costs.at(kLongSet).generated);

  // The document fits the sinks and the first page after them.
  const CellAnswers& quest = results->cells[1];
  EXPECT_GT(quest.costs.at(kLongSet).moved.units, 0u);
  EXPECT_GT(std::ranges::count(quest.right, 1), 0);
}

// The first steps do not fill the budget of four pages; speculation blocks in those.
TEST_F(AnswerRunTest, EveryCellCountsTheHeadsThatBlocked) {
  const Conversation conversation = AskTwice();
  const std::vector<std::string> policies = {"quest", "streaming", "freekv", kSpeculating};
  const std::vector<double> budgets = {6.25};
  const auto results = Run(conversation, MakeCells(policies, budgets));
  ASSERT_TRUE(results.ok()) << results.status();
  const auto costs = [&](size_t cell) { return results->cells[cell].costs.at(kLongSet); };
  const uint64_t heads = uint64_t{local_.engine->spec().num_layers} * kKvHeads;
  const AnswerCosts full = costs(0), quest = costs(1), streaming = costs(2), freekv = costs(3),
                    speculating = costs(4);
  EXPECT_EQ(quest.head_steps, quest.steps * heads);
  EXPECT_EQ(quest.blocking_share(), 1);
  for (const AnswerCosts& nothing : {full, streaming}) {
    EXPECT_EQ(nothing.head_steps, 0u);
    EXPECT_EQ(nothing.blocking_share(), 0);
  }
  EXPECT_EQ(speculating.head_steps, speculating.steps * heads);
  EXPECT_GT(speculating.blocking_heads, 0u);
  EXPECT_GT(freekv.blocking_share(), speculating.blocking_share());
  EXPECT_LT(freekv.blocking_share(), 1);
}

TEST_F(AnswerRunTest, AThresholdIsFoundAtWhichAFewHeadsAreCorrected) {
  const Conversation conversation = AskTwice();
  const auto tau = CalibrateOnQuestions(local_, *client_, Documents(conversation));
  ASSERT_TRUE(tau.ok()) << tau.status();
  const std::vector<std::string> policies = {"freekv", kSpeculating, kCalibrated};
  const std::vector<double> budgets = {12.5};
  std::vector<AnswerCell> cells = MakeCells(policies, budgets);
  cells.back().tau = *tau;
  const auto results = Run(conversation, cells);
  ASSERT_TRUE(results.ok()) << results.status();
  const auto share = [&](size_t cell) {
    return results->cells[cell].costs.at(kLongSet).blocking_share();
  };
  EXPECT_NEAR(share(3) - share(2), kCorrectedShare, 0.08)
      << "corrected, with tau " << *tau << "; published: " << share(1);
  EXPECT_LT(share(3), share(1));
}

TEST_F(AnswerRunTest, ALongConversationThatTheModelHasNoRoomForIsRefused) {
  Conversation conversation = AskTwice();
  conversation.line_start = kLineStart;
  conversation.context_tokens = 9000;
  const auto results = Run(conversation);
  ASSERT_FALSE(results.ok());
  EXPECT_EQ(results.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(results.status())), HasSubstr("makes 9000"));
}

}  // namespace
}  // namespace quire::bench
