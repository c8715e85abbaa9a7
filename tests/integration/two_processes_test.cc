// SPDX-License-Identifier: Apache-2.0
//
// The server and the worker in processes of their own, with the bundled model: `quired` keeps the
// documents, `quire put` and `quire ask` come and go, and neither a clean restart nor SIGKILL of
// the server between them changes an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/demo_corpus.h"
#include "client/cli/local_worker.h"
#include "client/cli/retrieval_flags.h"
#include "embedded/embedded_store.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using testing::ChildProcess;

constexpr char kModel[] = QUIRE_SOURCE_DIR "/models/recall-small";
constexpr size_t kDocuments = 2;
constexpr uint32_t kAnswerTokens = 6;

class TwoProcessesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto corpus = cli::LoadDemoCorpus(std::string(kModel) + "/documents", 0);
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    corpus->documents.resize(kDocuments);
    std::erase_if(corpus->questions,
                  [](const cli::DemoQuestion& q) { return q.document >= kDocuments; });
    corpus_ = *std::move(corpus);
  }

  void StartServer() {
    server_ = std::make_unique<ChildProcess>(
        QUIRE_BINARY_DIR "/bin/quired",
        std::vector<std::string>{"--data-dir", dir_ / "data", "--dram-bytes", "8MiB", "--listen",
                                 "127.0.0.1:0"},
        dir_ / "quired.err");
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

  std::vector<std::string> AskAll() {
    std::vector<std::string> answers;
    for (const cli::DemoQuestion& question : corpus_.questions) {
      const nlohmann::json answer =
          Quire({"ask", "--document", corpus_.documents[question.document].name, "--question",
                 question.prompt, "--prefix", "", "--model", kModel, "--max-new-tokens",
                 std::to_string(kAnswerTokens)});
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
  const auto local = cli::LoadLocalWorker(kModel, client.get(), worker::EngineOptions{}).value();
  const worker::RetrievalOptions retrieval = cli::DefaultRetrieval();
  std::vector<TokenId> stop = local.tokenizer->Encode("\n");
  stop.push_back(local.tokenizer->eos_id());
  for (const cli::DemoDocument& document : corpus_.documents) {
    const auto tokens = cli::DocumentTokens(*local.tokenizer, document.text);
    const auto result = local.engine->Ingest(tokens, {.name = document.name});
    EXPECT_TRUE(result.ok()) << result.status();
  }
  std::vector<std::string> answers;
  for (const cli::DemoQuestion& question : corpus_.questions) {
    const DocumentName name{.name = corpus_.documents[question.document].name};
    const auto sequence = local.engine->OpenSequence(name, {.retrieval = retrieval}).value();
    EXPECT_TRUE(sequence->Append(local.tokenizer->Encode(question.prompt)).ok());
    const auto generation =
        sequence->Generate({.max_new_tokens = kAnswerTokens, .stop_tokens = stop}).value();
    answers.push_back(nlohmann::json(generation.tokens).dump());
  }
  return answers;
}

TEST_F(TwoProcessesTest, AnswersAreTheSameInOneProcessInTwoAndAfterRestarts) {
  StartServer();
  std::vector<std::string> put = {"put", "--model", kModel};
  for (const cli::DemoDocument& document : corpus_.documents) {
    put.push_back(std::string(kModel) + "/documents/" + document.name);
  }
  EXPECT_EQ(Quire(put)["documents"].size(), kDocuments);
  const std::vector<std::string> answers = AskAll();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers, AskEmbedded());

  // Promise 3: what was acknowledged is there after a crash, and so are the answers.
  StopServer(SIGKILL, -SIGKILL);
  StartServer();
  EXPECT_EQ(Quire({"docs", "list"})["documents"].size(), kDocuments);
  EXPECT_EQ(AskAll(), answers);

  StopServer(SIGTERM, 0);
  StartServer();
  EXPECT_EQ(AskAll(), answers);
  StopServer(SIGTERM, 0);
}

}  // namespace
}  // namespace quire
