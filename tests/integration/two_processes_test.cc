// SPDX-License-Identifier: Apache-2.0
//
// The server and the worker in separate processes, with the bundled model. `quired` keeps the
// documents, while `quire put` and `quire ask` run once each. Neither a clean restart nor SIGKILL
// of the server in between changes an answer, nor do bit flips in the server's memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/kit/documents/demo_corpus.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/kit/worker/retrieval_flags.h"
#include "common/base/unique_fd.h"
#include "kvserver/embedded/embedded_store.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using testing::ChildProcess;

constexpr size_t kDocuments = 2;
constexpr uint32_t kAnswerTokens = 6;

class TwoProcessesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto corpus = cli::LoadDemoCorpus(std::string(QUIRE_BUNDLED_MODEL) + "/documents");
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    corpus->documents.resize(kDocuments);
    std::erase_if(corpus->questions,
                  [](const cli::DemoQuestion& q) { return q.document >= kDocuments; });
    corpus_ = *std::move(corpus);
  }

  void StartServer(const std::vector<std::string>& flags = {"--dram-bytes", "8MiB"}) {
    std::vector<std::string> args = {"--data-dir", dir_ / "data", "--listen", "127.0.0.1:0"};
    args.insert(args.end(), flags.begin(), flags.end());
    server_ =
        std::make_unique<ChildProcess>(QUIRE_BINARY_DIR "/bin/quired", args, dir_ / "quired.err");
    std::string line;
    ASSERT_TRUE(server_->ReadLine(&line)) << server_->Stderr();
    address_ = line.substr(line.rfind(' ') + 1);
  }
  void StopServer(int signal, int expected) {
    server_->Signal(signal);
    EXPECT_EQ(server_->Wait(), expected) << server_->Stderr();
  }

  /// Runs the command against the server and returns its last line of output as JSON.
  nlohmann::json Quire(std::vector<std::string> args) {
    args.insert(args.end(), {"--server", address_, "--json"});
    ChildProcess quire(QUIRE_BINARY_DIR "/bin/quire", args, dir_ / "quire.err");
    const std::string out = quire.ReadAll();
    EXPECT_EQ(quire.Wait(), 0) << quire.Stderr();
    return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  }

  /// Asks the first question about the first document, under the name `document`.
  nlohmann::json AskAbout(const std::string& document) {
    const cli::DemoQuestion& question = corpus_.questions.front();
    return Quire({"ask", "--document", document, "--question", question.prompt, "--prefix", "",
                  "--model", QUIRE_BUNDLED_MODEL, "--max-new-tokens",
                  std::to_string(kAnswerTokens)});
  }
  uint64_t Count(const std::string& counter) {
    return Quire({"stat", "--counters"})["counters"].value(counter, uint64_t{0});
  }

  std::vector<std::string> AskAll() {
    std::vector<std::string> answers;
    for (const cli::DemoQuestion& question : corpus_.questions) {
      const nlohmann::json answer =
          Quire({"ask", "--document", corpus_.documents[question.document].name, "--question",
                 question.prompt, "--prefix", "", "--model", QUIRE_BUNDLED_MODEL,
                 "--max-new-tokens", std::to_string(kAnswerTokens)});
      EXPECT_TRUE(answer.contains("tokens")) << answer;
      answers.push_back(answer.value("tokens", nlohmann::json::array()).dump());
    }
    return answers;
  }

  /// The same questions with server and worker in this process.
  std::vector<std::string> AskEmbedded();

  testing::TempDir dir_;
  cli::DemoCorpus corpus_;
  std::unique_ptr<ChildProcess> server_;
  std::string address_;
};

std::vector<std::string> TwoProcessesTest::AskEmbedded() {
  const auto store =
      EmbeddedStore::Open({.data_dir = dir_ / "embedded", .dram_bytes = 8 << 20}).value();
  const auto client = Client::Create({.transport = store->transport()}).value();
  const auto local =
      cli::LoadLocalWorker(QUIRE_BUNDLED_MODEL, client.get(), worker::EngineOptions{}).value();
  const worker::RetrievalOptions retrieval = cli::DefaultRetrieval();
  std::vector<TokenId> stop = *local.tokenizer->Encode("\n");
  stop.push_back(local.tokenizer->ends().front());
  for (const cli::DemoDocument& document : corpus_.documents) {
    const auto tokens = *cli::DocumentTokens(*local.tokenizer, document.text);
    const auto result = local.engine->Ingest(tokens, {.name = document.name});
    EXPECT_TRUE(result.ok()) << result.status();
  }
  std::vector<std::string> answers;
  for (const cli::DemoQuestion& question : corpus_.questions) {
    const DocumentName name{.name = corpus_.documents[question.document].name};
    const auto sequence = local.engine->OpenSequence(name, {.retrieval = retrieval}).value();
    EXPECT_TRUE(sequence->Append(*local.tokenizer->Encode(question.prompt)).ok());
    const auto generation =
        sequence->Generate({.max_new_tokens = kAnswerTokens, .stop_tokens = stop}).value();
    answers.push_back(nlohmann::json(generation.tokens).dump());
  }
  return answers;
}

TEST_F(TwoProcessesTest, AnswersAreTheSameInOneProcessInTwoAndAfterRestarts) {
  StartServer();
  std::vector<std::string> put = {"put", "--model", QUIRE_BUNDLED_MODEL};
  for (const cli::DemoDocument& document : corpus_.documents) {
    put.push_back(std::string(QUIRE_BUNDLED_MODEL) + "/documents/" + document.name);
  }
  EXPECT_EQ(Quire(put)["documents"].size(), kDocuments);
  const std::vector<std::string> answers = AskAll();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers, AskEmbedded());

  // Promise 3: acknowledged data survives a crash, and so do the answers.
  StopServer(SIGKILL, -SIGKILL);
  StartServer();
  EXPECT_EQ(Quire({"docs", "list"})["documents"].size(), kDocuments);
  EXPECT_EQ(AskAll(), answers);

  StopServer(SIGTERM, 0);
  StartServer();
  EXPECT_EQ(AskAll(), answers);
  StopServer(SIGTERM, 0);
}

TEST_F(TwoProcessesTest, AQuestionOverSeveralDocumentsReusesTheirCaches) {
  StartServer({"--dram-bytes", "64MiB"});
  const auto tokenizer =
      worker::Tokenizer::Load(std::string(QUIRE_BUNDLED_MODEL) + "/tokenizer.json").value();
  std::vector<std::string> put = {"put", "--no-statistics", "--model", QUIRE_BUNDLED_MODEL};
  std::vector<TokenId> whole(tokenizer.starts().begin(), tokenizer.starts().end());
  std::vector<std::string> texts;
  for (const cli::DemoDocument& document : std::span(corpus_.documents).first(2)) {
    // Both together have to fit in the model's context.
    texts.push_back(document.text.substr(0, document.text.rfind('\n', document.text.size() / 3)));
    put.push_back(dir_ / document.name);
    std::ofstream(put.back()) << texts.back();
    const std::vector<TokenId> tokens = *tokenizer.Encode(texts.back());
    whole.insert(whole.end(), tokens.begin(), tokens.end());
  }
  Quire(put);
  const auto question = std::ranges::find_if(corpus_.questions, [&](const cli::DemoQuestion& q) {
    const size_t fact = q.prompt.find(": ") + 2;  // Behind "Question".
    return q.document == 0 && texts[0].find(q.prompt.substr(fact)) != std::string::npos;
  });
  ASSERT_NE(question, corpus_.questions.end());
  const auto ask = [&](const std::string& method) {
    return Quire({"ask", "--docs", corpus_.documents[0].name + "," + corpus_.documents[1].name,
                  "--method", method, "--question", question->prompt, "--prefix", "", "--model",
                  QUIRE_BUNDLED_MODEL, "--max-new-tokens", std::to_string(kAnswerTokens)});
  };
  const nlohmann::json full = ask("full");
  EXPECT_EQ(full["prompt_tokens"], whole.size() + full["question_tokens"].get<size_t>());
  EXPECT_EQ(full["recompute_ratio"], 1.0);
  EXPECT_EQ(full["bytes_fetched"], 0);
  const nlohmann::json reused = ask("reuse_strict");
  EXPECT_EQ(reused["recompute_ratio"], 0.0);
  EXPECT_EQ(reused["bytes_fetched"], reused["bytes_of_documents"]);
  // The answer is in the first document, which nothing stands before.
  EXPECT_EQ(reused["tokens"], full["tokens"]);
  for (const char* method : {"cacheblend", "epic"}) {
    const nlohmann::json answer = ask(method);
    EXPECT_EQ(answer["tokens"], full["tokens"]) << method;
    EXPECT_LT(answer["recompute_ratio"], 0.7) << method;
  }
  // Statistics are computed for the first question, and stored with the documents.
  const nlohmann::json selected = ask("samkv");
  EXPECT_LT(selected["sequence_ratio"], 0.5);
  EXPECT_EQ(selected["statistics_stored"], 2);
  const nlohmann::json again = ask("samkv");
  EXPECT_EQ(again["statistics_computed"], 0);
  EXPECT_EQ(again["sequence_ratio"], selected["sequence_ratio"]);
  const nlohmann::json blocks = ask("multi_infllm");
  EXPECT_LT(blocks["sequence_ratio"], 0.5);
  for (const nlohmann::json& answer : {blocks, ask("reuse_isolated")}) {
    EXPECT_EQ(answer["recompute_ratio"], 0.0);
    EXPECT_EQ(answer["question_tokens"], full["question_tokens"]);
  }
  StopServer(SIGTERM, 0);
}

/// Flips a bit in every block of 4 KiB of the arena, like faulty memory.
void FlipArena(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream maps(process + "/maps");
  const UniqueFd memory(open((process + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_GE(memory.get(), 0) << std::strerror(errno);
  uint64_t flipped = 0;
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find("quire-arena") == std::string::npos) continue;
    uint64_t begin = 0;
    uint64_t end = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx", &begin, &end), 2) << line;
    std::vector<char> block(4096);
    for (uint64_t at = begin; at < end; at += block.size()) {
      const auto offset = static_cast<off_t>(at);
      ASSERT_EQ(pread(memory.get(), block.data(), block.size(), offset), ssize_t{4096});
      const auto used = std::ranges::find_if(block, [](char byte) { return byte != 0; });
      if (used == block.end()) continue;
      *used = static_cast<char>(*used ^ 0x10);
      ASSERT_EQ(pwrite(memory.get(), &*used, 1, offset + (used - block.begin())), 1)
          << std::strerror(errno);
      ++flipped;
    }
  }
  EXPECT_GT(flipped, 100u);
}

// Promise 2: answers stay the same whatever the server's memory does to its data.
TEST_F(TwoProcessesTest, Promise2AnswersStayRightWhenTheServersMemoryFlipsBits) {
  StartServer({"--dram-bytes", "64MiB"});
  Quire({"collection", "set", "coded", "--codec", "int8+zstd"});
  std::map<std::string, nlohmann::json> right;
  for (const std::string name : {"raw", "coded"}) {
    // The same tokens would be the same segments, with the codec of the first put.
    const cli::DemoDocument& document = corpus_.documents[name == "raw" ? 0 : 1];
    Quire({"put", "--model", QUIRE_BUNDLED_MODEL,
           std::string(QUIRE_BUNDLED_MODEL) + "/documents/" + document.name, "--collection", name,
           "--name", "document"});
    right[name] = AskAbout(name + "/document")["tokens"];
  }
  for (const bool pinned : {false, true}) {
    if (pinned) Quire({"pin", "raw/document", "coded/document"});
    FlipArena(server_->pid());
    const uint64_t mended = Count("dram_extents_mended");
    for (const auto& [name, tokens] : right) {
      EXPECT_EQ(AskAbout(name + "/document")["tokens"], tokens) << name << pinned;
    }
    EXPECT_GT(Count("units_reported"), 0u);
    EXPECT_GT(Count("dram_extents_mended"), mended);
    EXPECT_EQ(Count("dram_extents_lost"), 0u);
  }
  StopServer(SIGTERM, 0);
}

TEST_F(TwoProcessesTest, Promise2WhatOnlyDamagedMemoryHadIsMendedByPuttingItAgain) {
  StartServer({"--dram-bytes", "64MiB", "--durability", "memory", "--ssd-write-bytes-per-second",
               "1", "--ssd-write-burst-bytes", "1"});
  const std::vector<std::string> put = {
      "put",
      "--model",
      QUIRE_BUNDLED_MODEL,
      std::string(QUIRE_BUNDLED_MODEL) + "/documents/" + corpus_.documents[0].name,
      "--name",
      "document"};
  Quire(put);
  ASSERT_GT(Count("puts_dram_only"), 0u);
  const nlohmann::json right = AskAbout("document")["tokens"];
  FlipArena(server_->pid());
  const auto lost = testing::RunChild(QUIRE_BINARY_DIR "/bin/quire",
                                      {"ask", "--server", address_, "--document", "document",
                                       "--question", "q", "--model", QUIRE_BUNDLED_MODEL});
  EXPECT_EQ(lost.exit_code, 1) << lost.out;
  EXPECT_GT(Count("dram_extents_lost"), 0u);
  Quire(put);
  EXPECT_EQ(AskAbout("document")["tokens"], right);
  StopServer(SIGTERM, 0);
}

}  // namespace
}  // namespace quire
