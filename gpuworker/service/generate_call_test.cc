// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/generate_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/paths.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::GenerateRequest Request() {
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(3);
  request.mutable_token_ids()->add_ids(5);
  return request;
}

void ExpectRefused(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

void ExpectRefused(const v1::GenerateRequest& request, const std::string& message) {
  ExpectRefused(ParseGenerate(request, {}, {}).status(), message);
}

TEST(GenerateCallTest, WhatIsLeftOutIsTheWorkersDefault) {
  const RetrievalOptions defaults{.policy = "streaming", .budget_tokens = 512};
  const auto call = ParseGenerate(Request(), {.retrieval = defaults}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->document.has_value());
  EXPECT_THAT(call->prompt, ElementsAre(3, 5));
  EXPECT_EQ(call->retrieval.policy, "streaming");
  EXPECT_EQ(call->retrieval.budget_tokens, 512u);
  EXPECT_EQ(call->params.max_new_tokens, kDefaultNewTokens);
  EXPECT_EQ(call->params.top_p, 1.0f);
}

TEST(GenerateCallTest, OneDocumentAndSeveralExcludeEachOther) {
  v1::GenerateRequest request = Request();
  request.mutable_documents()->add_names()->set_name("n");
  request.mutable_documents()->mutable_names(0)->set_collection("c");
  const auto call = ParseGenerate(request, {}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->documents->names, ElementsAre(DocumentName{"c", "n"}));
  *request.mutable_document() = request.documents().names(0);
  ExpectRefused(request, "document and documents are both set");
}

TEST(GenerateCallTest, WhatIsGivenIsTaken) {
  v1::GenerateRequest request = Request();
  request.mutable_document()->set_collection("c");
  request.mutable_document()->set_name("n");
  request.set_policy("full");
  request.set_budget_tokens(256);
  request.set_max_new_tokens(7);
  request.add_stop_token_ids(9);
  request.mutable_sampling()->set_temperature(0.5f);
  request.mutable_sampling()->set_top_p(0.9f);
  request.mutable_sampling()->set_seed(4);
  const auto call = ParseGenerate(request, {}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->document->name, "n");
  EXPECT_EQ(call->retrieval.policy, "full");
  EXPECT_EQ(call->retrieval.budget_tokens, 256u);
  EXPECT_EQ(call->params.max_new_tokens, 7u);
  EXPECT_EQ(call->params.temperature, 0.5f);
  EXPECT_EQ(call->params.top_p, 0.9f);
  EXPECT_EQ(call->params.seed, 4u);
  EXPECT_THAT(call->params.stop_tokens, ElementsAre(9));
}

TEST(GenerateCallTest, HowARecallWaitsAndIsTakenInIsAsTheRequestSays) {
  RetrievalOptions defaults;
  defaults.correction_threshold = 0.7f;
  defaults.recall_deadline = std::chrono::milliseconds(3);
  defaults.units_per_buffer = 8;
  auto call = ParseGenerate(Request(), {.retrieval = defaults}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->retrieval.correction_threshold, 0.7f);
  EXPECT_EQ(call->retrieval.recall_deadline, std::chrono::milliseconds(3));
  EXPECT_EQ(call->retrieval.units_per_buffer, 8u);
  v1::GenerateRequest request = Request();
  request.set_policy("freekv");
  request.set_correction_threshold(0.9f);
  request.set_recall_deadline_us(0);
  request.set_units_per_buffer(0);
  call = ParseGenerate(request, {.retrieval = defaults}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->retrieval.correction_threshold, 0.9f);
  EXPECT_EQ(call->retrieval.recall_deadline, Duration::zero());
  EXPECT_EQ(call->retrieval.units_per_buffer, 0u);
  request.set_recall_deadline_us(UINT32_MAX);
  EXPECT_EQ(ParseGenerate(request, {.retrieval = defaults}, {}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(GenerateCallTest, TheRankOfKeysIsTheRequestsOrTheDefault) {
  const RetrievalOptions defaults{.policy = "shadowkv", .key_rank = 32};
  v1::GenerateRequest request = Request();
  EXPECT_EQ(ParseGenerate(request, {.retrieval = defaults}, {})->retrieval.key_rank, 32u);
  request.set_key_rank(0);
  EXPECT_EQ(ParseGenerate(request, {.retrieval = defaults}, {})->retrieval.key_rank, 0u);
  request.set_key_rank(64);
  EXPECT_EQ(ParseGenerate(request, {.retrieval = defaults}, {})->retrieval.key_rank, 64u);
}

TEST(GenerateCallTest, AnOptionThatThePolicyDoesNotReadIsRefused) {
  v1::GenerateRequest request = Request();
  request.set_correction_threshold(0.9f);
  ExpectRefused(request, "correction_threshold is an option of the policy freekv, and this one is");
  request = Request();
  request.set_recall_deadline_us(1);
  request.set_policy("streaming");
  ExpectRefused(request, "recall_deadline_us is an option of the policy freekv");
  request = Request();
  request.set_key_rank(8);
  request.set_policy("freekv");
  ExpectRefused(request, "key_rank is an option of the policy shadowkv, and this one is freekv");
}

TEST(GenerateCallTest, TheBudgetIsDividedAsTheRequestSays) {
  const RetrievalOptions defaults{
      .sink_tokens = 64, .window_tokens = 96, .uncompressed_layers = {0, 1}};
  auto call = ParseGenerate(Request(), {.retrieval = defaults}, {});
  EXPECT_EQ(call->retrieval.sink_tokens, 64u);
  EXPECT_EQ(call->retrieval.window_tokens, 96u);
  EXPECT_THAT(call->retrieval.uncompressed_layers, ElementsAre(0, 1));
  EXPECT_EQ(call->retrieval.side, SelectionSide::kWorker);
  v1::GenerateRequest request = Request();
  request.set_sink_tokens(0);
  request.set_window_tokens(128);
  request.mutable_uncompressed_layers();  // Present and empty: none.
  request.set_select(v1::SELECTION_SIDE_SERVER);
  call = ParseGenerate(request, {.retrieval = defaults}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->retrieval.sink_tokens, 0u);
  EXPECT_EQ(call->retrieval.window_tokens, 128u);
  EXPECT_THAT(call->retrieval.uncompressed_layers, ElementsAre());
  EXPECT_EQ(call->retrieval.side, SelectionSide::kServer);
  request.mutable_uncompressed_layers()->add_layers(3);
  EXPECT_THAT(ParseGenerate(request, {.retrieval = defaults}, {})->retrieval.uncompressed_layers,
              ElementsAre(3));
}

TEST(GenerateCallTest, APolicyOtherThanTheWorkersComesWithItsLayers) {
  const GenerateDefaults defaults{
      .retrieval = {.policy = "quest", .budget_tokens = 768, .uncompressed_layers = {}}};
  v1::GenerateRequest request = Request();
  const auto layers = [&] {
    return ParseGenerate(request, defaults, {})->retrieval.uncompressed_layers;
  };
  request.set_policy("quest");
  EXPECT_THAT(layers(), ElementsAre());
  request.set_policy("freekv");
  EXPECT_THAT(layers(), ElementsAre(0));
  EXPECT_EQ(ParseGenerate(request, defaults, {})->retrieval.budget_tokens, 768u);
  request.mutable_uncompressed_layers();  // Present and empty: none.
  EXPECT_THAT(layers(), ElementsAre());
  request.set_policy("best");
  ExpectRefused(request, "no retrieval policy 'best'");
}

TEST(GenerateCallTest, ATextIsEndedByItsStopTextsAndTheEndOfTheSequence) {
  auto tokenizer = Tokenizer::Load(QUIRE_SOURCE_DIR "/models/recall-small/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  tokenizer->AddEnds(std::vector<TokenId>{77, tokenizer->ends().front()});
  v1::GenerateRequest request;
  request.set_text("hello");
  request.add_stop_token_ids(9);
  request.add_stop_texts("\n");
  const auto call = ParseGenerate(request, {}, {.tokenizer = &*tokenizer});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->params.stop_tokens,
              ElementsAre(9, tokenizer->ends().front(), 77, (*tokenizer->Encode("\n")).front()));
  for (const std::string& text : {std::string("two words"), std::string(), std::string(65, '\n')}) {
    v1::GenerateRequest bad = request;
    bad.add_stop_texts(text);
    const auto refused = ParseGenerate(bad, {}, {.tokenizer = &*tokenizer});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("stop text of"));
  }
  for (int i = 0; i < kMaxStopTexts; ++i) request.add_stop_texts("\n");
  EXPECT_THAT(
      std::string(ParseGenerate(request, {}, {.tokenizer = &*tokenizer}).status().message()),
      HasSubstr("17 stop_texts"));
}

TEST(GenerateCallTest, BadRequestsAreRefusedByField) {
  ExpectRefused(v1::GenerateRequest(), "the prompt is empty");
  v1::GenerateRequest request;
  request.set_text("hello");
  ExpectRefused(request, "no tokenizer; send token_ids");
  request = Request();
  request.set_max_new_tokens(kMaxNewTokens + 1);
  ExpectRefused(request, "max_new_tokens is 65537");
  request = Request();
  for (int i = 0; i <= kMaxStopTokens; ++i) request.add_stop_token_ids(i);
  ExpectRefused(request, "stop_token_ids has 1025 token ids");
  request = Request();
  request.add_stop_token_ids(-1);
  ExpectRefused(request, "stop_token_ids[0] is -1");
  request = Request();
  request.mutable_token_ids()->add_ids(-5);
  ExpectRefused(request, "is -5: token ids are not negative");
  request = Request();
  request.add_stop_texts("x");
  ExpectRefused(request, "stop_texts go with a text prompt");
  request = Request();
  request.set_select(static_cast<v1::SelectionSide>(7));
  ExpectRefused(request, "select is 7");
  request = Request();
  request.mutable_document()->set_name("");
  ExpectRefused(request, "collection");
}

class GenerateChatTest : public ::testing::Test {
 protected:
  /// A request with one message of the user.
  static v1::GenerateRequest Chat(const std::string& content) {
    v1::GenerateRequest request;
    v1::ChatMessage* const message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(content);
    return request;
  }
  std::string PromptText(const v1::GenerateRequest& request, const TextOfModel& text) const {
    const auto call = ParseGenerate(request, {}, text, /*now_seconds=*/86'400);
    EXPECT_TRUE(call.ok()) << call.status();
    return *tokenizer_.Decode(call->prompt);
  }

  const Tokenizer tokenizer_ =
      *Tokenizer::Load(QUIRE_SOURCE_DIR "/tests/data/golden/text/qwen.json");
  const ChatTemplate chat_ = **ChatTemplate::Parse(
      R"({"chat_template": "{{ strftime_now('%Y') }}<{{ messages[0].content }}>"})", "config");
  const TextOfModel with_chat_{.tokenizer = &tokenizer_, .chat = &chat_};
  const TextOfModel without_chat_{.tokenizer = &tokenizer_};
};

TEST_F(GenerateChatTest, AConversationGoesThroughTheTemplateAndAQuestionBehindItsDocument) {
  v1::GenerateRequest request = Chat("words");
  EXPECT_EQ(PromptText(request, with_chat_), "1970<words>");
  request.mutable_document()->set_name("n");
  request.mutable_document()->set_collection("c");
  EXPECT_EQ(PromptText(request, with_chat_), "words>");
}

TEST_F(GenerateChatTest, AModelWithoutATemplateReadsTheSubstitute) {
  v1::GenerateRequest request = Chat("words");
  ExpectRefused(ParseGenerate(request, {}, without_chat_).status(), "no chat template; send text");
  request.mutable_chat()->set_without_template("plain words");
  request.add_stop_texts("e");
  EXPECT_EQ(PromptText(request, without_chat_), "plain words");
  EXPECT_EQ(ParseGenerate(request, {}, without_chat_)->params.stop_tokens, *tokenizer_.Encode("e"));
  EXPECT_EQ(PromptText(request, with_chat_), "1970<words>");
  EXPECT_TRUE(ParseGenerate(request, {}, with_chat_)->params.stop_tokens.empty());
}

TEST_F(GenerateChatTest, BadConversationsAreRefused) {
  v1::GenerateRequest request = Chat("words");
  request.mutable_chat()->mutable_messages(0)->set_role("robot");
  ExpectRefused(ParseGenerate(request, {}, with_chat_).status(),
                "chat: message 1 has the role 'robot'");
  request.mutable_chat()->clear_messages();
  ExpectRefused(ParseGenerate(request, {}, with_chat_).status(),
                "chat: a conversation needs a message");
}

}  // namespace
}  // namespace quire::worker
