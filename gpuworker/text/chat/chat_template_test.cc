// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "gpuworker/text/chat/chat_prompt.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

constexpr char kChats[] = QUIRE_SOURCE_DIR "/tests/data/golden/chat/";
constexpr char kTokenizers[] = QUIRE_SOURCE_DIR "/tests/data/golden/text/";

/// tools/golden/make_chat_golden.py has made these with Hugging Face's transformers.
constexpr const char* kChatFamilies[] = {"llama2",       "llama3", "llama3_1", "mistral",
                                         "mistral_nemo", "qwen2",  "qwen3"};

std::string ReadChatFile(const std::string& name) {
  auto text = ReadTextFile(kChats + name, 1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return *std::move(text);
}

ChatTemplate ParseChat(const std::string& config) {
  auto chat = ChatTemplate::Parse(config, "tokenizer_config.json");
  EXPECT_TRUE(chat.ok() && chat->has_value()) << chat.status();
  return **std::move(chat);
}

std::vector<ChatMessage> MessagesOf(const nlohmann::json& json) {
  std::vector<ChatMessage> messages;
  for (const auto& message : json) messages.push_back({message["role"], message["content"]});
  return messages;
}

const nlohmann::json& ChatGoldens() {
  static const nlohmann::json goldens = nlohmann::json::parse(ReadChatFile("chats.json"));
  return goldens;
}

class ChatGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void Compare(const char* field, bool add_generation_prompt) {
    const auto& conversations = ChatGoldens()["conversations"];
    ASSERT_EQ(family_[field].size(), conversations.size());
    for (size_t i = 0; i < conversations.size(); ++i) {
      const auto text = chat_.Render(MessagesOf(conversations[i]),
                                     {.add_generation_prompt = add_generation_prompt});
      const auto& want = family_[field][i];
      ASSERT_EQ(text.ok(), !want.is_null()) << conversations[i] << text.status();
      if (!text.ok()) continue;
      EXPECT_EQ(*text, want["text"].get<std::string>()) << conversations[i];
      EXPECT_EQ(*tokenizer_.Encode(*text), want["ids"].get<std::vector<TokenId>>());
    }
  }

  const nlohmann::json& family_ = ChatGoldens()["families"][GetParam()];
  const ChatTemplate chat_ = ParseChat(ReadChatFile(std::string(GetParam()) + ".json"));
  const Tokenizer tokenizer_ =
      *Tokenizer::Load(kTokenizers + family_["tokenizer"].get<std::string>() + ".json");
};

TEST_P(ChatGolden, GivesTheTextAndTheIdsOfTransformers) {
  Compare("with_prompt", true);
  Compare("without_prompt", false);
}

TEST_P(ChatGolden, ADocumentAndAQuestionAreTheIdsOfTheWholeConversation) {
  for (const auto& wanted : family_["documents"]) {
    auto ids = DocumentInChat(chat_, tokenizer_, wanted["document"].get<std::string>());
    ASSERT_TRUE(ids.ok()) << ids.status();
    const auto question = QuestionInChat(chat_, tokenizer_, {{"user", wanted["question"]}});
    ASSERT_TRUE(question.ok()) << question.status();
    ids->insert(ids->end(), question->begin(), question->end());
    EXPECT_EQ(*ids, wanted["ids"].get<std::vector<TokenId>>())
        << wanted["document"] << wanted["question"];
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ChatGolden, ::testing::ValuesIn(kChatFamilies),
                         [](const auto& info) { return std::string(info.param); });

TEST(ChatTemplateTest, EveryWordOfTheLanguageMeansWhatJinjaMeans) {
  const auto& language = ChatGoldens()["language"];
  for (const auto& wanted : language["cases"]) {
    const nlohmann::json config = {{"chat_template", wanted["template"]}};
    const auto chat = ChatTemplate::Parse(config.dump(), "tokenizer_config.json");
    StatusOr<std::string> text = chat.status();
    if (chat.ok()) text = (*chat)->Render(MessagesOf(language["messages"]), {});
    ASSERT_EQ(text.ok(), !wanted["text"].is_null()) << wanted["template"] << text.status();
    if (text.ok()) EXPECT_EQ(*text, wanted["text"].get<std::string>()) << wanted["template"];
  }
}

void ExpectRefused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << part;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ChatTemplateTest, AConversationIsCheckedBeforeItIsRendered) {
  const ChatTemplate chat = ParseChat(R"({"chat_template": "{{ messages[0].content }}"})");
  ExpectRefused(chat.Render({}, {}).status(), "a conversation needs a message");
  const std::vector<ChatMessage> unknown = {{"user", "x"}, {"robot", "y"}};
  ExpectRefused(chat.Render(unknown, {}).status(),
                "message 2 has the role 'robot'; known are system, user and assistant");
  const std::vector<ChatMessage> broken = {{"user", "a\xFF"}};
  EXPECT_EQ(*chat.Render(broken, {}), "a\uFFFD");
}

TEST(ChatTemplateTest, AWrongFieldIsNamedWithItsFile) {
  const auto refused = [](const std::string& config, const std::string& part) {
    ExpectRefused(ChatTemplate::Parse(config, "dir/tokenizer_config.json").status(), part);
  };
  refused(R"({"chat_template": "{{ 1"})",
          "dir/tokenizer_config.json: chat_template: line 1, column 1: this tag does not end");
  refused(R"({"chat_template": 3})", "chat_template must be a template, or a list");
  refused(R"({"chat_template": [{"name": "rag", "template": "x"}]})", "one called \"default\"");
  refused(R"({"chat_template": "x", "eos_token": 3})", "eos_token is not a token");
  refused("[]", "not a JSON object");
  EXPECT_EQ(*ChatTemplate::Parse("{}", "x"), std::nullopt);
}

TEST(ChatTemplateTest, AFileOfItsOwnStandsBeforeTheField) {
  const testing::TempDir directory;
  EXPECT_EQ(*ChatTemplate::Find(directory.path()), std::nullopt);
  std::ofstream(directory / "tokenizer_config.json")
      << R"({"bos_token": {"content": "<s>"}, "chat_template": "field"})";
  const std::vector<ChatMessage> messages = {{"user", "x"}};
  EXPECT_EQ(*(*ChatTemplate::Find(directory.path()))->Render(messages, {}), "field");
  std::ofstream(directory / "chat_template.jinja") << "{{ bos_token }} file\n";
  EXPECT_EQ(*(*ChatTemplate::Find(directory.path()))->Render(messages, {}), "<s> file");
  std::ofstream(directory / "own.jinja") << "\n{{ x.y }}";
  const auto own = ChatTemplate::Load(directory / "own.jinja", directory.path());
  ExpectRefused(own->Render(messages, {}).status(), "own.jinja: line 2, column 6: 'y' of an");
  EXPECT_TRUE(IsNotFound(ChatTemplate::Load(directory / "none", directory.path()).status()));
}

TEST(ChatPromptTest, ADocumentNeedsATemplateThatShowsItAndAQuestionOfTheUser) {
  const auto tokenizer = *Tokenizer::Load(std::string(kTokenizers) + "qwen.json");
  const ChatTemplate silent = ParseChat(R"({"chat_template": "nothing"})");
  ExpectRefused(DocumentInChat(silent, tokenizer, "text").status(), "does not show the beginning");
  const ChatTemplate chat = ParseChat(ReadChatFile("qwen2.json"));
  ExpectRefused(QuestionInChat(chat, tokenizer, {{"system", "s"}, {"user", "q"}}).status(),
                "put its words into the user's message");
  ExpectRefused(QuestionInChat(chat, tokenizer, {{"assistant", "a"}}).status(),
                "a question needs a message of the user");
}

TEST(ChatPromptTest, TokensOfADocumentAreTheSameOnEveryDay) {
  const auto tokenizer = *Tokenizer::Load(std::string(kTokenizers) + "qwen.json");
  const ChatTemplate chat =
      ParseChat(R"({"chat_template": "{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}"})");
  const auto ids = DocumentInChat(chat, tokenizer, "text");
  EXPECT_EQ(*tokenizer.Decode(*ids), "26 Jul 2024 text\n\n");
  const ChatMessage message{"user", "x"};
  const auto today = ConversationInChat(chat, tokenizer, {&message, 1}, 86'400);
  EXPECT_EQ(*tokenizer.Decode(*today), "02 Jan 1970 x");
}

}  // namespace
}  // namespace quire::worker
