// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints without a supported tokenizer, through every program, by token ids.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/kit/answer_line.h"
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

TEST_F(CheckpointTest, TextOfHuggingFacesTokenizersGoesInAndComesOut) {
  std::ofstream(dir_ / "a.txt")
      << "It's caf\u00e9 \u6570\u636e \U0001F642, and we'll store pages.\n";
  for (const std::string family : {"llama2", "llama3", "qwen", "mistral_nemo"}) {
    const testing::TempDir model;
    const std::string file = QUIRE_SOURCE_DIR "/tests/data/golden/text/" + family + ".json";
    const auto tokenizer = worker::Tokenizer::Load(file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    testing::WriteTinyModel(
        model.path(),
        {.vocab_size = static_cast<uint32_t>(tokenizer->vocab_size()), .max_positions = kContext});
    std::filesystem::copy_file(file, model / "tokenizer.json");
    const auto put = QuireJson({"put", dir_ / "a.txt", "--name", family, "--model", model.path()});
    ASSERT_TRUE(put.contains("documents")) << put;
    const auto answer = QuireJson({"ask", "--document", family, "--question", "\u6570", "--model",
                                   model.path(), "--max-new-tokens", "12"});
    ASSERT_TRUE(answer.contains("tokens")) << family << ": " << answer;
    const auto tokens = answer["tokens"].get<std::vector<TokenId>>();
    cli::AnswerLine line(nullptr);
    line.Add(*tokenizer->Decode(tokens));
    EXPECT_EQ(answer["answer"], line.text()) << family;
  }
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
