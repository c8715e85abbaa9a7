// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of random weights through every program: by token ids without a tokenizer, and by
// text with the tokenizer and the chat template of each family.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/output/answer_line.h"
#include "gpuworker/text/chat/chat_prompt.h"
#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/text_stream.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/integration/quire_fixture.h"
#include "tests/kit/paths.h"
#include "tests/kit/tiny_model.h"

namespace quire {
namespace {

using testing::ChildResult;
using ::testing::HasSubstr;

constexpr uint32_t kContext = 512;
constexpr int kAnswerTokens = 6;

class CheckpointTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    testing::WriteTinyModel(model_.path(), {.max_positions = kContext});
    StartServer();
  }
  /// `count` ids that the model knows, separated by `separator`.
  static std::string Ids(int count, const std::string& separator) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::to_string((7 * i + 3) % 64) + separator;
    return text;
  }
  void PutIds() {
    std::ofstream(dir_ / "ids.txt") << Ids(300, "\n");
    const auto put = QuireJson({"put", "--token-ids", "@" + (dir_ / "ids.txt"), "--name", "ids",
                                "--model", model_.path()});
    ASSERT_TRUE(put.contains("documents")) << put;
    EXPECT_EQ(put["documents"][0]["tokens"], 300);
  }
  std::vector<std::string> Ask(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"ask",
                                     "--document",
                                     "ids",
                                     "--token-ids",
                                     "5, 8 13",
                                     "--max-new-tokens",
                                     std::to_string(kAnswerTokens)};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  testing::TempDir model_;
};

TEST_F(CheckpointTest, TokenIdsGoInAndTokenIdsComeOut) {
  PutIds();
  const auto json = QuireJson(Ask({"--model", model_.path()}));
  ASSERT_EQ(json["tokens"].size(), kAnswerTokens) << json;
  EXPECT_EQ(json["context_tokens"], 300 + 3 + kAnswerTokens - 1);
  std::string words;
  for (const auto& id : json["tokens"]) words += (words.empty() ? "" : " ") + id.dump();
  EXPECT_EQ(json["answer"], words);
  EXPECT_EQ(Quire(Ask({"--model", model_.path()})).out, words + "\n");

  // A stop token ends the answer, and is not part of it.
  const auto stopped =
      QuireJson(Ask({"--model", model_.path(), "--stop-ids", json["tokens"][3].dump()}));
  EXPECT_LE(stopped["tokens"].size(), 3u);
}

TEST_F(CheckpointTest, AWorkerWithoutATokenizerAnswersTheSameTokens) {
  PutIds();
  testing::ChildProcess worker(Binary("quire"),
                               {"--server", address_, "worker", "--model", model_.path(),
                                "--listen", "127.0.0.1:0", "--json"},
                               dir_ / "worker.err");
  std::string line;
  ASSERT_TRUE(worker.ReadLine(&line)) << worker.Stderr();
  const auto ready = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(ready["text"], false);
  const std::string address = ready["listening"];
  const auto here = QuireJson(Ask({"--model", model_.path()}));
  const auto there = QuireJson(Ask({"--worker", address}));
  ASSERT_EQ(here["tokens"].size(), kAnswerTokens) << here;
  EXPECT_EQ(there["tokens"], here["tokens"]) << there;
  const ChildResult text =
      Quire({"ask", "--document", "ids", "--question", "hello", "--worker", address});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.err, HasSubstr("no tokenizer"));
  EXPECT_THAT(text.err, HasSubstr("--token-ids"));
}

TEST_F(CheckpointTest, TextWithoutATokenizerIsRefusedWithTheRemedy) {
  PutIds();
  std::ofstream(dir_ / "a.txt") << "Some words.\n";
  const ChildResult put = Quire({"put", dir_ / "a.txt", "--model", model_.path()});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err, HasSubstr("tokenizer.json"));
  EXPECT_THAT(put.err, HasSubstr("--token-ids and --name"));
  // An unsupported tokenizer counts as none, and is named.
  std::ofstream(model_ / "tokenizer.json") << R"({"version": "1.0", "model": {"type": "BPE"}})";
  const ChildResult ask =
      Quire({"ask", "--document", "ids", "--question", "hello", "--model", model_.path()});
  EXPECT_EQ(ask.exit_code, 1);
  EXPECT_THAT(ask.err, HasSubstr("tokenizer.json"));
  EXPECT_THAT(ask.err, HasSubstr("give the question as token ids with --token-ids"));
  EXPECT_EQ(Quire(Ask({"--model", model_.path()})).exit_code, 0);
}

// Windows, experts, caps and fused projections, over a store and through the shipped programs.
TEST_F(CheckpointTest, EveryFamilyIsPutAndAsked) {
  for (const std::string family :
       {"mistral-window", "mixtral", "qwen3-moe", "phi3-longrope", "gemma2", "gemma3"}) {
    SCOPED_TRACE(family);
    const std::string model = QUIRE_SOURCE_DIR "/tests/data/golden/" + family;
    const auto put =
        QuireJson({"put", "--token-ids", Ids(70, " "), "--name", family, "--model", model});
    ASSERT_TRUE(put.contains("documents")) << put;
    const auto ask = [&](const std::string& policy) {
      return QuireJson({"ask", "--document", family, "--token-ids", "5 8 13", "--max-new-tokens",
                        "9", "--model", model, "--policy", policy});
    };
    const auto full = ask("full");
    EXPECT_EQ(full["tokens"].size(), 9u) << full;
    EXPECT_EQ(ask("quest")["tokens"], full["tokens"]);  // The budget covers the document.
  }
}

/// A model with latent attention, whose pages are latents.
class LatentCheckpointTest : public CheckpointTest {
 protected:
  void SetUp() override {
    testing::TinyModel model = testing::TinyLatentModel(5);
    model.max_positions = kContext;
    testing::WriteTinyModel(model_.path(), model);
    StartServer();
  }
  /// Asks with a policy and a budget.
  nlohmann::json AskWithin(const std::string& policy, int budget,
                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = Ask({"--model", model_.path(), "--policy", policy, "--budget",
                                         std::to_string(budget), "--sinks", "32"});
    args.insert(args.end(), more.begin(), more.end());
    return QuireJson(args);
  }
};

TEST_F(LatentCheckpointTest, ABudgetThatCoversEverythingAnswersAsFullDoesAndALesserMovesLess) {
  PutIds();
  const auto full = AskWithin("full", 512);
  ASSERT_EQ(full["tokens"].size(), kAnswerTokens) << full;
  for (const std::string policy : {"quest", "freekv", "arkvale"}) {
    SCOPED_TRACE(policy);
    const auto covering = AskWithin(policy, 512);
    EXPECT_EQ(covering["tokens"], full["tokens"]) << covering;
    const auto within = AskWithin(policy, 192);
    ASSERT_EQ(within["tokens"].size(), kAnswerTokens) << within;
    EXPECT_GT(within["bytes_units"], 0) << within;
    EXPECT_LT(within["bytes_units"], within["bytes_full"]) << within;
  }
  // The server scores the same latents with the same queries.
  const auto at_server = AskWithin("quest", 192, {"--select", "server"});
  EXPECT_EQ(at_server["tokens"], AskWithin("quest", 192)["tokens"]) << at_server;
}

TEST_F(LatentCheckpointTest, APolicyThatReadsHeadsIsRefusedWithThoseThatDoNot) {
  PutIds();
  const ChildResult refused = Quire(Ask({"--model", model_.path(), "--policy", "shadowkv"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("a latent is key and value; use one of: arkvale, freekv"));
}

/// A family of chat models: its decoder, and its files of text in tests/data/golden.
struct ChatFamily {
  const char* name;
  worker::Architecture architecture;
  const char* tokenizer;
};
constexpr ChatFamily kChatFamilies[] = {
    {"llama2", worker::Architecture::kLlama, "llama2"},
    {"llama3_1", worker::Architecture::kLlama, "llama3"},
    {"mistral", worker::Architecture::kMistral, "mistral"},
    {"mistral_nemo", worker::Architecture::kMistral, "mistral_nemo"},
    {"qwen2", worker::Architecture::kQwen2, "qwen"},
    {"qwen3", worker::Architecture::kQwen3, "qwen"},
};

class ChatModelTest : public CheckpointTest, public ::testing::WithParamInterface<ChatFamily> {
 protected:
  static constexpr char kText[] =
      "It's caf\u00e9 \u6570\u636e \U0001F642, and we'll store pages.\n";
  static constexpr char kQuestion[] = "\u6570 it's?";

  void SetUp() override {
    const std::string golden = QUIRE_SOURCE_DIR "/tests/data/golden/";
    const std::string tokens = golden + "text/" + GetParam().tokenizer + ".json";
    const std::string config = golden + "chat/" + GetParam().name + ".json";
    tokenizer_.emplace(*worker::Tokenizer::Load(tokens));
    testing::WriteTinyModel(model_.path(),
                            {.architecture = GetParam().architecture,
                             .vocab_size = static_cast<uint32_t>(tokenizer_->vocab_size()),
                             .max_positions = kContext});
    std::filesystem::copy_file(tokens, model_ / "tokenizer.json");
    std::filesystem::copy_file(config, model_ / "tokenizer_config.json");
    chat_.emplace(**worker::ChatTemplate::Find(model_.path()));
    std::ofstream(dir_ / "a.txt") << kText;
    StartServer();
  }
  std::vector<std::string> AskText(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"ask",     "--document",       "chat", "--question",
                                     kQuestion, "--seed",           "3",    "--temperature",
                                     "3",       "--max-new-tokens", "24"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  /// Whole characters, token by token.
  std::string TextOf(const std::vector<TokenId>& tokens) const {
    cli::AnswerLine line(nullptr);
    line.KeepLines();
    worker::TextStream stream(*tokenizer_);
    for (const TokenId token : tokens) line.Add(*stream.Add(token));
    line.Add(stream.Finish());
    return line.text();
  }

  std::optional<worker::Tokenizer> tokenizer_;
  std::optional<worker::ChatTemplate> chat_;
};

TEST_P(ChatModelTest, TextGoesInAndComesOutHereAndThroughAWorker) {
  const auto put = QuireJson({"put", dir_ / "a.txt", "--name", "chat", "--model", model_.path()});
  ASSERT_TRUE(put.contains("documents")) << put;
  const auto document = *worker::DocumentInChat(*chat_, *tokenizer_, kText);
  EXPECT_EQ(put["documents"][0]["tokens"], document.size());
  const auto here = QuireJson(AskText({"--model", model_.path()}));
  ASSERT_TRUE(here.contains("tokens")) << here;
  const auto question = *worker::QuestionInChat(*chat_, *tokenizer_, {{"user", kQuestion}});
  const auto tokens = here["tokens"].get<std::vector<TokenId>>();
  EXPECT_EQ(here["context_tokens"], document.size() + question.size() + tokens.size() - 1);
  EXPECT_EQ(here["answer"], TextOf(tokens));

  testing::ChildProcess worker(Binary("quire"),
                               {"--server", address_, "worker", "--model", model_.path(),
                                "--listen", "127.0.0.1:0", "--json"},
                               dir_ / "worker.err");
  std::string ready;
  ASSERT_TRUE(worker.ReadLine(&ready)) << worker.Stderr();
  const auto json = nlohmann::json::parse(ready, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json["chat_template"], true);
  const auto there = QuireJson(AskText({"--worker", json["listening"]}));
  EXPECT_EQ(there["tokens"], here["tokens"]) << there;
  EXPECT_EQ(there["answer"], here["answer"]);
  EXPECT_EQ(there["prompt_tokens"], question.size());
}

INSTANTIATE_TEST_SUITE_P(Families, ChatModelTest, ::testing::ValuesIn(kChatFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

class ChatTemplateProcessTest : public CheckpointTest {
 protected:
  void SetUp() override {
    const std::string golden = QUIRE_SOURCE_DIR "/tests/data/golden/";
    std::filesystem::copy_file(golden + "text/qwen.json", model_ / "tokenizer.json");
    const auto tokenizer = worker::Tokenizer::Load(model_ / "tokenizer.json");
    testing::WriteTinyModel(
        model_.path(),
        {.vocab_size = static_cast<uint32_t>(tokenizer->vocab_size()), .max_positions = kContext});
    std::ofstream(dir_ / "a.txt") << "Some words.";
    StartServer();
  }
  ChildResult Put(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"put", dir_ / "a.txt", "--model", model_.path()};
    args.insert(args.end(), more.begin(), more.end());
    return Quire(args);
  }
};

TEST_F(ChatTemplateProcessTest, ATemplateThatDoesNotParseIsRefusedWithPlaceAndRemedy) {
  std::ofstream(model_ / "chat_template.jinja") << "{{ bos_token }}\n{{ messages | sort }}";
  const ChildResult put = Put({});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err,
              HasSubstr("chat_template.jinja: line 2, column 15: the filter 'sort' is not"));
  EXPECT_THAT(put.err, HasSubstr("--chat-template FILE, or read text as it is with "
                                 "--no-chat-template"));
  EXPECT_TRUE(QuireJson({"ls"})["documents"].empty());
  EXPECT_EQ(Put({"--no-chat-template"}).exit_code, 0);
  std::ofstream(dir_ / "other.jinja") << "<{{ messages[0].content }}>";
  EXPECT_EQ(Put({"--chat-template", dir_ / "other.jinja"}).exit_code, 0);
}

TEST_F(ChatTemplateProcessTest, ATemplateThatAsksForWhatIsNotThereIsRefusedAndNothingIsStored) {
  std::ofstream(model_ / "chat_template.jinja") << "{{ messages[0].content + today.year }}";
  const ChildResult put = Put({});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err, HasSubstr("chat_template.jinja: line 1, column 32: 'year' of an undefined"));
  EXPECT_TRUE(QuireJson({"ls"})["documents"].empty());
}

TEST_F(ChatTemplateProcessTest, ATokenizerOfAnotherVocabularyIsRefused) {
  testing::WriteTinyModel(model_.path(), {.vocab_size = 300, .max_positions = kContext});
  const ChildResult put = Put({});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err, HasSubstr("tokenizer.json: has "));
  EXPECT_THAT(put.err,
              HasSubstr("vocab_size of config.json is 300; take both files from the same"));
}

TEST_F(CheckpointTest, BadTokenIdsAndLongDocumentsAreRefusedAndNothingIsStored) {
  const auto put = [&](const std::string& ids) {
    return Quire({"put", "--token-ids", ids, "--name", "bad", "--model", model_.path()});
  };
  EXPECT_THAT(put("1 2 x3").err, HasSubstr("'x3' is no token id"));
  EXPECT_THAT(put("64").err, HasSubstr("id 64; the model knows 0 to 63"));
  EXPECT_THAT(put("@" + (dir_ / "none")).err, HasSubstr(dir_ / "none"));
  const ChildResult longer = put(Ids(600, " "));
  EXPECT_EQ(longer.exit_code, 1);
  EXPECT_THAT(longer.err,
              HasSubstr("has 600 tokens, but the model's context is 512; split the file"));
  EXPECT_TRUE(QuireJson({"ls"})["documents"].empty());
}

}  // namespace
}  // namespace quire
