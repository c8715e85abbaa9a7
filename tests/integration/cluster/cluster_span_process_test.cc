// SPDX-License-Identifier: Apache-2.0
//
// One question over documents of several nodes, in a cluster of real processes. The answer and the
// bytes are those of one server that has all documents. Each node is asked once. A node may be
// killed meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/cluster/cluster_fixture.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::ChildResult;

constexpr char kQuestion[] = "What is the code of door 31?";
/// Documents of each node.
constexpr size_t kOfEach = 2;
constexpr char kRecalls[] = "quire_session_recalls_total ";
constexpr char kSessions[] = "quire_sessions_open ";

class ClusterSpanProcessTest : public testing::ClusterFixture {
 protected:
  std::string Servers() {
    std::string servers;
    for (const auto& [name, node] : nodes_) servers += (servers.empty() ? "" : ",") + node.address;
    return servers;
  }
  /// Writes files whose documents belong to all nodes, kOfEach to each.
  void WriteFiles() {
    std::map<std::string, size_t> places;
    for (int i = 0; files_.size() < kOfEach * nodes_.size() && i < 200; ++i) {
      const std::string name = "note-" + std::to_string(i) + ".txt";
      const auto place = router_->FindPlace({.name = name});
      ASSERT_TRUE(place.ok()) << place.status();
      if (places[*place] == kOfEach) continue;
      ++places[*place];
      std::ofstream file(dir_ / name);
      for (size_t door = files_.size() * 10; door < files_.size() * 10 + 10; ++door) {
        file << "The code of door " << door << " is " << 4711 + 37 * door << ". ";
      }
      files_.push_back(name);
    }
    ASSERT_EQ(files_.size(), kOfEach * nodes_.size());
  }
  /// Puts all files with one command.
  void PutFiles(const std::string& servers) {
    std::vector<std::string> args = {"--server", servers, "put"};
    for (const std::string& name : files_) args.push_back(dir_ / name);
    const ChildResult put = Quire(args);
    ASSERT_EQ(put.exit_code, 0) << put.err;
  }
  /// A server of its own with the same documents.
  void StartSingle() {
    single_ = std::make_unique<ChildProcess>(
        QUIRE_BINARY_DIR "/bin/quired",
        std::vector<std::string>{"--data-dir", dir_ / "single", "--listen", "127.0.0.1:0",
                                 "--dram-bytes", "64MiB", "--ssd-bytes", "128MiB", "--transports",
                                 "grpc"},
        dir_ / "single.err");
    std::string line;
    const std::string prefix = "quired listening on ";
    ASSERT_TRUE(single_->ReadLine(&line) && line.starts_with(prefix)) << line << single_->Stderr();
    single_address_ = line.substr(prefix.size());
    PutFiles(single_address_);
  }
  std::string Docs() const {
    std::string docs;
    for (const std::string& name : files_) docs += (docs.empty() ? "" : ",") + name;
    return docs;
  }
  std::vector<std::string> AskArgs(const std::vector<std::string>& flags) const {
    std::vector<std::string> args = {"--json",           "ask", "--docs",     Docs(),
                                     "--max-new-tokens", "12",  "--question", kQuestion};
    args.insert(args.end(), flags.begin(), flags.end());
    return args;
  }
  json Ask(const std::string& servers, const std::vector<std::string>& flags) {
    std::vector<std::string> args = AskArgs(flags);
    args.insert(args.begin(), {"--server", servers});
    const ChildResult asked = Quire(args);
    EXPECT_EQ(asked.exit_code, 0) << asked.out << asked.err;
    return json::parse(asked.out, nullptr, /*allow_exceptions=*/false);
  }
  /// A counter of a node, by the begin of its line.
  uint64_t CounterOf(const std::string& name, const std::string& line) {
    const std::string metrics = testing::HttpGet(nodes_[name].admin_port, "/metrics");
    const size_t at = metrics.find("\n" + line);
    return at == std::string::npos ? 0 : std::stoull(metrics.substr(at + 1 + line.size()));
  }
  std::map<std::string, uint64_t> Recalls() {
    std::map<std::string, uint64_t> recalls;
    for (const auto& [name, node] : nodes_) recalls[name] = CounterOf(name, kRecalls);
    return recalls;
  }

  std::vector<std::string> files_;  ///< Names of the documents, too.
  std::unique_ptr<ChildProcess> single_;
  std::string single_address_;
};

TEST_F(ClusterSpanProcessTest, AQuestionOverAllNodesIsAnsweredAsByOneServer) {
  StartAll();
  WriteFiles();
  PutFiles(Servers());
  StartSingle();
  const std::vector<std::vector<std::string>> methods = {
      {"--method", "reuse_strict"},
      {"--method", "samkv"},
      {"--method", "hops"},
      {"--method", "cachecraft", "--variants", "2"},  // Keeps variants.
      {"--method", "cachecraft"},                     // Reads them.
  };
  for (const auto& method : methods) {
    SCOPED_TRACE(::testing::PrintToString(method));
    const json expected = Ask(single_address_, method);
    const auto before = Recalls();
    const json answer = Ask(Servers(), method);
    for (const char* same : {"answer", "bytes_fetched", "sequence_ratio", "recompute_ratio",
                             "prompt_tokens", "variants_used", "variants_kept"}) {
      EXPECT_EQ(answer[same], expected[same]) << same;
    }
    EXPECT_EQ(answer["transport"], "grpc");
    if (method[1] != "reuse_strict") continue;
    for (const auto& [name, recalls] : Recalls()) {
      EXPECT_EQ(recalls, before.at(name) + 1) << "node " << name << " was asked once";
    }
  }
}

TEST_F(ClusterSpanProcessTest, AWorkerOfAClusterAnswersOverAllNodes) {
  StartAll();
  WriteFiles();
  PutFiles(Servers());
  ChildProcess worker(QUIRE_BINARY_DIR "/bin/quire",
                      std::vector<std::string>{"--server", Servers(), "worker", "--listen",
                                               "127.0.0.1:0", "--json"},
                      dir_ / "worker.err");
  std::string line;
  ASSERT_TRUE(worker.ReadLine(&line)) << worker.Stderr();
  const std::string address = json::parse(line)["listening"];
  const auto ask = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"--json", "ask", "--max-new-tokens", "12", "--question", kQuestion});
    const ChildResult asked = Quire(args);
    EXPECT_EQ(asked.exit_code, 0) << asked.out << asked.err;
    return json::parse(asked.out, nullptr, /*allow_exceptions=*/false)["answer"];
  };
  EXPECT_EQ(ask({"--docs", Docs(), "--worker", address}),
            ask({"--docs", Docs(), "--server", Servers()}));
  for (const std::string& name : files_) {
    EXPECT_EQ(ask({"--document", name, "--worker", address}),
              ask({"--document", name, "--server", Servers()}))
        << name;
  }
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 0) << worker.Stderr();
}

TEST_F(ClusterSpanProcessTest, TheAnswerIsRightWhenANodeOfAQuestionIsKilled) {
  StartAll();
  ASSERT_EQ(ClusterJson({"settings", "--replicas", "2", "--min-replicas", "2"})["replicas"], 2);
  ASSERT_TRUE(WaitForReplicas(2));
  WriteFiles();
  PutFiles(Servers());  // Returns when both owners have a document.
  const std::vector<std::string> method = {"--method", "cacheblend"};
  const json calm = Ask(Servers(), method);

  std::vector<std::string> args = AskArgs(method);
  args.insert(args.begin(), {"--server", Servers()});
  ChildProcess ask(QUIRE_BINARY_DIR "/bin/quire", args, dir_ / "ask.err");
  std::string killed;
  const TimePoint deadline = SystemClock().Now() + testing::kClusterPatience;
  while (killed.empty() && SystemClock().Now() < deadline) {
    for (const auto& [name, node] : nodes_) {
      if (killed.empty() && CounterOf(name, kSessions) > 0) killed = name;
    }
    SystemClock().Sleep(std::chrono::milliseconds(1));
  }
  ASSERT_FALSE(killed.empty()) << ask.Stderr();
  Kill(killed);
  const std::string out = ask.ReadAll();
  ASSERT_EQ(ask.Wait(), 0) << out << ask.Stderr();
  EXPECT_EQ(json::parse(out)["answer"], calm["answer"]);
  EXPECT_EQ(Ask(Servers(), method)["answer"], calm["answer"]) << "the others have all documents";
}

}  // namespace
}  // namespace quire
