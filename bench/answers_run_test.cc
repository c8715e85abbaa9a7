// SPDX-License-Identifier: Apache-2.0
//
// Conversations with the bundled model over a store in this process.
#include "bench/answers_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/answers/dossier.h"
#include "embedded/embedded_store.h"
#include "tests/kit/temp_dir.h"

namespace quire::bench {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr char kModel[] = QUIRE_SOURCE_DIR "/models/recall-small";
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
    local_ = cli::LoadLocalWorker(kModel, client_.get(), options).value();
  }

  StatusOr<AnswerResults> Run(Conversation conversation) {
    const std::vector<AskedDocument> documents = {
        {.name = "short", .text = kText, .conversations = {std::move(conversation)}}};
    const std::vector<std::string> policies = {"quest"};
    const std::vector<double> budgets = {50};
    return AnswerRun(local_, *client_, documents, MakeCells(policies, budgets), 2).Run();
  }

  uint64_t AnswerTokens(const Conversation& conversation) const {
    uint64_t tokens = 0;
    for (const Question& question : conversation.questions) {
      tokens += local_.tokenizer->Encode(question.answer).size();
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
  const uint64_t line_start_tokens = local_.tokenizer->Encode(kLineStart).size();
  EXPECT_EQ(line_start_tokens, 3u);
  // A line start that goes wrong ends with its first token.
  const uint64_t generated = full.costs.at(kLongSet).generated - AnswerTokens(conversation);
  EXPECT_GT(generated, lines * 2);
  EXPECT_LE(generated, lines * line_start_tokens);
  EXPECT_GT(full.costs.at(kLongSet).steps, full.costs.at(kLongSet).generated);

  // The document is within the sinks and the first page after them.
  const CellAnswers& quest = results->cells[1];
  EXPECT_GT(quest.costs.at(kLongSet).moved.units, 0u);
  EXPECT_GT(std::ranges::count(quest.right, 1), 0);
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
