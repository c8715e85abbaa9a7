// SPDX-License-Identifier: Apache-2.0
//
// Server, worker and asker as three processes, with the bundled model.
#include <fstream>
#include <string>

#include "tests/integration/quire_fixture.h"

namespace quire {
namespace {

constexpr char kModel[] = QUIRE_SOURCE_DIR "/models/recall-small";

/// A server that holds the document of the first bundled question.
class WorkerProcessTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    std::ifstream file(std::string(kModel) + "/documents/questions.jsonl");
    std::string line;
    std::getline(file, line);
    bundled_ = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    StartServer();
    EXPECT_EQ(Put()["documents"][0]["reused_tokens"], 0);
  }
  nlohmann::json Put() {
    const auto name = bundled_["document"].get<std::string>();
    return QuireJson({"put", std::string(kModel) + "/documents/" + name, "--model", kModel});
  }
  /// Asks the bundled question with `more` flags.
  nlohmann::json Ask(const std::vector<std::string>& more) {
    std::vector<std::string> args = {
        "ask", "--document", bundled_["document"], "--question", bundled_["question"], "--prefix",
        ""};
    args.insert(args.end(), more.begin(), more.end());
    return QuireJson(args);
  }
  nlohmann::json bundled_;
};

TEST_F(WorkerProcessTest, AWorkerInAThirdProcessAnswersAsThisOneDoes) {
  testing::ChildProcess worker(
      Binary("quire"),
      {"--server", address_, "worker", "--model", kModel, "--listen", "127.0.0.1:0", "--json"},
      dir_ / "worker.err");
  std::string line;
  ASSERT_TRUE(worker.ReadLine(&line)) << worker.Stderr();
  const auto listening =
      nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false)["listening"];
  const auto there = Ask({"--policy", "full", "--worker", listening});
  const auto here = Ask({"--policy", "full", "--model", kModel});
  ASSERT_TRUE(here.contains("answer")) << here;
  EXPECT_EQ(there["answer"], here["answer"]) << there;
  EXPECT_EQ(bundled_["answer"].get<std::string>().find(here["answer"]), 1u) << here;
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 0) << worker.Stderr();
}

TEST_F(WorkerProcessTest, WhatIsStoredIsNotReadAgain) {
  const auto again = Put();
  EXPECT_EQ(again["documents"][0]["version"], 2);
  EXPECT_GT(again["documents"][0]["reused_tokens"], 3000);
}

}  // namespace
}  // namespace quire
