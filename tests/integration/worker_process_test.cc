// SPDX-License-Identifier: Apache-2.0
//
// Server, worker and client as three processes, with the bundled model.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/quire_fixture.h"
#include "tests/kit/caller_tokens.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

/// A server that holds the document of the first bundled question.
class WorkerProcessTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    std::ifstream file(std::string(QUIRE_BUNDLED_MODEL) + "/documents/questions.jsonl");
    std::string line;
    std::getline(file, line);
    bundled_ = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    Start();
    EXPECT_EQ(Put()["documents"][0]["reused_tokens"], 0);
  }
  virtual void Start() { StartServer(); }
  std::string DocumentPath() const {
    return std::string(QUIRE_BUNDLED_MODEL) + "/documents/" +
           bundled_["document"].get<std::string>();
  }
  nlohmann::json Put() {
    return QuireJson({"put", DocumentPath(), "--model", QUIRE_BUNDLED_MODEL});
  }
  /// Starts a worker with `more` flags. Returns its address.
  std::string StartWorker(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--server",          address_,   "worker",      "--model",
                                     QUIRE_BUNDLED_MODEL, "--listen", "127.0.0.1:0", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    worker_ = std::make_unique<testing::ChildProcess>(Binary("quire"), args, dir_ / "worker.err");
    std::string line;
    EXPECT_TRUE(worker_->ReadLine(&line)) << worker_->Stderr();
    const auto ready = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(ready.is_object()) << line;
    return ready.is_object() ? ready.value("listening", "") : "";
  }
  void StopWorker() {
    worker_->Signal(SIGTERM);
    EXPECT_EQ(worker_->Wait(), 0) << worker_->Stderr();
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
  std::unique_ptr<testing::ChildProcess> worker_;
};

class DiskLimitTest : public testing::QuireFixture {
 protected:
  /// Disk use of the data directory, in whole blocks of its files.
  uint64_t DiskBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "data")) {
      struct stat file = {};
      // A file deleted meanwhile has no blocks.
      if (stat(entry.path().c_str(), &file) == 0) {
        bytes += 512 * static_cast<uint64_t>(file.st_blocks);
      }
    }
    return bytes;
  }
  /// Writes a unique text of more than a thousand tokens. Returns its path.
  std::string WriteText(int number) const {
    const std::string path = dir_ / ("text-" + std::to_string(number) + ".txt");
    std::ofstream text(path);
    for (int line = 0; line < 50; ++line) {
      text << "Text " << number << ", line " << line << ": the record of case "
           << 1000 * number + line << ".\n";
    }
    return path;
  }
};

// The user's disk limit holds while the store is filled.
TEST_F(DiskLimitTest, WhatIsPutStaysWithinTheLimit) {
  constexpr uint64_t kLimit = 32 << 20;
  StartServer({"--ssd-bytes", "32MiB"});
  int stored = 0;
  testing::ChildResult put;
  for (; stored < 20; ++stored) {
    put = Quire({"put", WriteText(stored), "--model", QUIRE_BUNDLED_MODEL, "--timeout", "20"});
    EXPECT_LE(DiskBytes(), kLimit) << stored;
    if (put.exit_code != 0) break;
  }
  EXPECT_GT(stored, 0);
  EXPECT_NE(put.exit_code, 0);
  EXPECT_THAT(put.err, HasSubstr("ssd_bytes"));
  const auto counters = QuireJson({"stat", "--counters"})["counters"];
  EXPECT_GT(counters.value("troubles{reason=\"disk_full\"}", 0), 0);
  ASSERT_EQ(Quire({"rm", "text-0.txt"}).exit_code, 0);
  EXPECT_EQ(Quire({"put", WriteText(100), "--model", QUIRE_BUNDLED_MODEL}).exit_code, 0);
  EXPECT_LE(DiskBytes(), kLimit);
}

TEST_F(WorkerProcessTest, AWorkerInAThirdProcessAnswersAsThisOneDoes) {
  const std::string address = StartWorker({});
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{},
        {"--policy", "full"},
        {"--budget", "512", "--sinks", "64", "--window", "96", "--uncompressed-layers", "0,2"},
        {"--select", "server"}}) {
    SCOPED_TRACE(::testing::PrintToString(flags));
    const auto with = [&](const std::string& option, const std::string& value) {
      std::vector<std::string> args = flags;
      args.insert(args.end(), {option, value});
      return Ask(args);
    };
    const auto there = with("--worker", address);
    const auto here = with("--model", QUIRE_BUNDLED_MODEL);
    ASSERT_TRUE(here.contains("tokens")) << here;
    EXPECT_FALSE(here["tokens"].empty());
    for (const char* key : {"answer", "tokens", "policy", "budget_ratio", "bytes_moved",
                            "bytes_units", "bytes_digests", "bytes_at_open", "bytes_full"}) {
      EXPECT_EQ(there[key], here[key]) << key << ": " << there;
    }
    EXPECT_EQ(bundled_["answer"].get<std::string>().find(here["answer"]), 1u) << here;
  }
  StopWorker();
}

class SeveralDocumentsProcessTest : public WorkerProcessTest {
 protected:
  void SetUp() override {
    WorkerProcessTest::SetUp();
    // Both together have to fit in the model's context.
    std::ifstream file(DocumentPath());
    std::string text(2000, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(text.rfind('\n'));
    for (const std::string name : {"a", "b"}) {
      std::ofstream(dir_ / name) << (name == "a" ? text : text.substr(text.size() / 2));
      ASSERT_EQ(Quire({"put", dir_ / name, "--model", QUIRE_BUNDLED_MODEL}).exit_code, 0);
    }
  }
  nlohmann::json AskOver(const std::string& names, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"ask", "--docs", names, bundled_["question"]};
    args.insert(args.end(), more.begin(), more.end());
    return QuireJson(args);
  }
};

TEST_F(SeveralDocumentsProcessTest, AWorkerAnswersAsThisProcessDoes) {
  const std::string address = StartWorker({});
  for (const std::string method : {"full", "reuse_strict", "epic", "cacheblend", "samkv"}) {
    SCOPED_TRACE(method);
    const auto there = AskOver("a,b", {"--method", method, "--worker", address});
    const auto here = AskOver("a,b", {"--method", method, "--model", QUIRE_BUNDLED_MODEL});
    ASSERT_TRUE(here.contains("tokens")) << here;
    for (const char* key :
         {"answer", "tokens", "document", "method", "prompt_tokens", "recompute_ratio",
          "sequence_ratio", "missing", "policy", "attended_ratio"}) {
      EXPECT_EQ(there[key], here[key]) << key << ": " << there;
    }
  }
  StopWorker();
}

TEST_F(SeveralDocumentsProcessTest, LayersOfTheModelAreTakenAndOthersRefusedHereAndThere) {
  const std::string address = StartWorker({});
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--worker", address}, {"--model", QUIRE_BUNDLED_MODEL}}) {
    const auto with = [&](std::vector<std::string> flags) {
      flags.insert(flags.end(), where.begin(), where.end());
      return AskOver("a,b", flags);
    };
    EXPECT_TRUE(with({"--method", "samkv", "--stable-layers", "0,1"}).contains("tokens"));
    EXPECT_TRUE(with({"--method", "cacheblend", "--check-layer", "0"}).contains("tokens"));
    const auto stable = with({"--method", "samkv", "--stable-layers", "0,99"})["error"];
    EXPECT_EQ(stable["code"], "INVALID_ARGUMENT");
    EXPECT_THAT(stable["message"].get<std::string>(),
                HasSubstr("layer 99 is to decide how much is read"));
    const auto check = with({"--method", "cacheblend", "--check-layer", "99"})["error"];
    EXPECT_EQ(check["code"], "INVALID_ARGUMENT");
    EXPECT_THAT(check["message"].get<std::string>(), HasSubstr("layer 99 is to compare values"));
  }
  StopWorker();
}

TEST_F(SeveralDocumentsProcessTest, TheQuestionIsGivenOnce) {
  EXPECT_EQ(Quire({"ask", "--docs", "a,b", "q", "--question", "q"}).exit_code, 2);
  EXPECT_EQ(Quire({"ask", "--docs", "a,b", "q", "--token-ids", "1,2"}).exit_code, 2);
  EXPECT_EQ(Quire({"ask", "--docs", "a,b"}).exit_code, 2);
  EXPECT_EQ(Quire({"ask", "--docs", "a,b", "--stable-layers", "0,1", "q", "--method", "samkv",
                   "--model", QUIRE_BUNDLED_MODEL})
                .exit_code,
            0);
}

TEST_F(SeveralDocumentsProcessTest, MissingDocumentsAreNamedOrSkippedHereAndThere) {
  const std::string address = StartWorker({});
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--worker", address}, {"--model", QUIRE_BUNDLED_MODEL}}) {
    const auto refused = AskOver("gone,a,books/away@2,b", where)["error"];
    EXPECT_EQ(refused["code"], "NOT_FOUND");
    EXPECT_THAT(refused["message"].get<std::string>(),
                HasSubstr("default/gone, books/away@2; put what is missing"));
    std::vector<std::string> skip = where;
    skip.push_back("--skip-missing");
    const auto answer = AskOver("gone,a,b", skip);
    EXPECT_EQ(answer["missing"], nlohmann::json({"default/gone"})) << answer;
    EXPECT_EQ(answer["tokens"], AskOver("a,b", where)["tokens"]);
    EXPECT_EQ(AskOver("gone,away", skip)["error"]["code"], "NOT_FOUND");
    EXPECT_EQ(AskOver(",", where)["error"]["code"], "INVALID_ARGUMENT");
  }
  StopWorker();
}

TEST_F(SeveralDocumentsProcessTest, AnExpiredDocumentAndOneOfOtherPagesAreNamed) {
  const std::string address = StartWorker({});
  ASSERT_EQ(
      Quire({"put", dir_ / "a", "--model", QUIRE_BUNDLED_MODEL, "--name", "old", "--ttl", "1s"})
          .exit_code,
      0);
  nlohmann::json expired;
  do {  // Until its time is over.
    expired = AskOver("old,b", {"--worker", address});
  } while (expired.contains("tokens"));
  EXPECT_EQ(expired["error"]["code"], "NOT_FOUND") << expired;
  EXPECT_THAT(expired["error"]["message"].get<std::string>(), HasSubstr("default/old"));
  ASSERT_EQ(
      Quire({"put", dir_ / "a", "--model", QUIRE_BUNDLED_MODEL, "--name", "half", "--dtype", "f16"})
          .exit_code,
      0);
  const auto other = AskOver("b,half", {"--worker", address});
  EXPECT_EQ(other["error"]["code"], "INVALID_ARGUMENT") << other;
  EXPECT_THAT(other["error"]["message"].get<std::string>(), HasSubstr("default/half"));
  StopWorker();
}

// Every token of such a text is a part of a character.
TEST_F(WorkerProcessTest, AnswersInOtherScriptsAreWholeText) {
  std::ofstream file(dir_ / "u.txt");
  for (int i = 0; i < 4; ++i) file << "Café déjà vu 中文 🙂\n";
  file.close();
  EXPECT_EQ(QuireJson({"put", dir_ / "u.txt", "--model", QUIRE_BUNDLED_MODEL})["documents"].size(),
            1u);
  std::ofstream(dir_ / "bytes.bin") << "\xff\xfe some \xc3";
  const testing::ChildResult put =
      Quire({"put", dir_ / "bytes.bin", "--model", QUIRE_BUNDLED_MODEL});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_THAT(put.err, HasSubstr("bytes.bin is not UTF-8 at byte 0"));
  const std::string address = StartWorker({});
  for (const char* document : {"u.txt", "bytes.bin"}) {
    const auto ask = [&](const std::string& option, const std::string& value) {
      return QuireJson({"ask", "--document", document, "--question", "Café déjà", "--timeout", "30",
                        "--temperature", "2", "--seed", "3", option, value});
    };
    const auto there = ask("--worker", address);
    ASSERT_TRUE(there.contains("answer")) << there;
    EXPECT_EQ(there["answer"], ask("--model", QUIRE_BUNDLED_MODEL)["answer"]);
  }
  StopWorker();
}

TEST_F(WorkerProcessTest, WhatIsNotGivenIsTheWorkersOwnDefault) {
  const std::string address = StartWorker({"--budget", "256", "--policy", "streaming"});
  const auto answer = Ask({"--worker", address});
  EXPECT_EQ(answer["policy"], "streaming") << answer;
  EXPECT_EQ(answer["bytes_units"], 0);
  EXPECT_LT(answer["budget_ratio"], 0.08);  // 256 of more than 4096 tokens.
  EXPECT_EQ(Ask({"--worker", address, "--policy", "quest"})["policy"], "quest");
  StopWorker();
}

TEST_F(WorkerProcessTest, WhatTheWorkerCannotDoIsRefusedAndNamed) {
  const std::string address = StartWorker({});
  const auto error = [&](const std::string& flag, const std::string& value) {
    const auto json = Ask({"--worker", address, flag, value});
    return json.contains("error") ? json["error"]["message"].get<std::string>() : json.dump();
  };
  EXPECT_THAT(error("--sinks", "33"), HasSubstr("sink_tokens is 33"));
  EXPECT_THAT(error("--window", "32"), HasSubstr("window_tokens is 32"));
  EXPECT_THAT(error("--uncompressed-layers", "9"), HasSubstr("layer 9"));
  EXPECT_THAT(error("--tenant", "team-b"), HasSubstr("as tenant 'default', not as 'team-b'"));
  StopWorker();
}

TEST_F(WorkerProcessTest, WithItsTextAtHandALostDocumentIsReadAgain) {
  const auto before = Ask({"--model", QUIRE_BUNDLED_MODEL, "--policy", "full"});
  EXPECT_EQ(before["recomputed_here"], false) << before;
  EXPECT_EQ(QuireJson({"rm", bundled_["document"]})["documents"], 1);
  EXPECT_EQ(Ask({"--model", QUIRE_BUNDLED_MODEL})["error"]["code"], "NOT_FOUND");
  const auto after = Ask({"--model", QUIRE_BUNDLED_MODEL, "--text", DocumentPath()});
  EXPECT_EQ(after["recomputed_here"], true) << after;
  EXPECT_EQ(after["tokens"], before["tokens"]);
}

/// Server and worker require proof of the caller; clients have the token in their environment.
class WorkerTokenTest : public WorkerProcessTest {
 protected:
  void Start() override {
    setenv("QUIRE_TOKEN", testing::kDefaultToken, 1);
    StartServer({"--tenant-tokens", TokensFile()});
  }
  void TearDown() override { unsetenv("QUIRE_TOKEN"); }
  std::string TokensFile() const {
    const std::string all = testing::kTenantTokens;
    return testing::WriteSecretFile(dir_ / "tenant-tokens", all.substr(0, all.find('\n')));
  }
};

TEST_F(WorkerTokenTest, AWorkerProvesItsTenantAndHasItProved) {
  const std::string address = StartWorker({"--tenant-tokens", TokensFile()});
  const auto answer = Ask({"--worker", address});
  EXPECT_FALSE(answer["tokens"].empty()) << answer;
  unsetenv("QUIRE_TOKEN");
  EXPECT_EQ(Ask({"--worker", address})["error"]["code"], "UNAUTHENTICATED");
  const auto others = testing::WriteSecretFile(dir_ / "others", testing::kOtherToken);
  EXPECT_EQ(Ask({"--worker", address, "--token-file", others})["error"]["code"], "UNAUTHENTICATED");
  const auto file = testing::WriteSecretFile(dir_ / "token", testing::kDefaultToken);
  EXPECT_EQ(Ask({"--worker", address, "--token-file", file})["tokens"], answer["tokens"]);
  StopWorker();
}

TEST_F(WorkerProcessTest, WhatIsStoredIsNotReadAgain) {
  const auto again = Put();
  EXPECT_EQ(again["documents"][0]["version"], 2);
  EXPECT_GT(again["documents"][0]["reused_tokens"], 3000);
}

}  // namespace
}  // namespace quire
