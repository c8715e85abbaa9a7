// SPDX-License-Identifier: Apache-2.0
//
// A reader that survives its node: two servers hold the same documents, and one of them is killed
// while a question is being answered. The members are in a file, and the second disk is a copy of
// the first, so that no other part of a cluster is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/etcd/testing/etcd_process.h"
#include "common/metrics/testing/http_get.h"
#include "quire/clock.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::ChildResult;

constexpr Duration kReaderPatience = std::chrono::seconds(60);
constexpr char kQuire[] = QUIRE_BINARY_DIR "/bin/quire";
constexpr char kSessionsOpen[] = "quire_sessions_open ";

class ClusterReaderProcessTest : public ::testing::Test {
 protected:
  struct Node {
    std::string address;
    int admin_port = 0;
    std::unique_ptr<ChildProcess> process;
  };

  ClusterReaderProcessTest() {
    json members = json::array();
    for (const char* name : {"a", "b"}) {
      nodes_[name].address = "127.0.0.1:" + std::to_string(cluster::testing::FreePort());
      members.push_back({{"name", name}, {"nodeId", name}, {"address", nodes_[name].address}});
    }
    std::ofstream(dir_ / "members.json") << json{{"name", "demo"}, {"members", members}};
  }

  void Start(const std::string& name) {
    Node& node = nodes_[name];
    const std::string port_file = dir_ / (name + ".admin");
    node.process = std::make_unique<ChildProcess>(
        QUIRE_BINARY_DIR "/bin/quired",
        std::vector<std::string>{"--data-dir", dir_ / name, "--listen", node.address,
                                 "--dram-bytes", "64MiB", "--ssd-bytes", "128MiB", "--admin-listen",
                                 "127.0.0.1:0", "--admin-port-file", port_file, "--cluster", "demo",
                                 "--members", dir_ / "members.json", "--node", name},
        dir_ / (name + ".err"));
    std::string line;
    ASSERT_TRUE(node.process->ReadLine(&line)) << node.process->Stderr();
    std::ifstream(port_file) >> node.admin_port;
  }
  void Stop(const std::string& name) {
    nodes_[name].process->Signal(SIGTERM);
    ASSERT_EQ(nodes_[name].process->Wait(), 0) << nodes_[name].process->Stderr();
  }
  /// Puts the document to the node that takes it, and gives the other one a copy of its disk.
  void PutToBoth() {
    std::ofstream text(dir_ / "note.txt");
    for (int i = 0; i < 60; ++i) {
      text << "The code of door " << i << " is " << 4711 + 37 * i << ". ";
    }
    text.close();
    Start("a");
    Start("b");
    const ChildResult put =
        testing::RunChild(kQuire, {"--server", Servers(), "put", dir_ / "note.txt"});
    ASSERT_EQ(put.exit_code, 0) << put.err;
    const std::string holder =
        testing::RunChild(kQuire, {"--server", nodes_["a"].address, "stat", "note.txt"})
                    .exit_code == 0
            ? "a"
            : "b";
    const std::string other = holder == "a" ? "b" : "a";
    Stop("a");
    Stop("b");
    std::filesystem::remove_all(dir_ / other);
    std::filesystem::copy(dir_ / holder, dir_ / other, std::filesystem::copy_options::recursive);
    Start("a");
    Start("b");
  }
  std::string Servers() { return nodes_["a"].address + "," + nodes_["b"].address; }
  std::vector<std::string> AskArgs(const std::string& transport) {
    return {"--server",         Servers(),  "--json",      "ask",
            "--document",       "note.txt", "--transport", transport,
            "--max-new-tokens", "160",      "--question",  "What is the code of door 31?"};
  }
  /// The node that a session is open at now; empty when none is.
  std::string NodeWithSession() {
    for (const auto& [name, node] : nodes_) {
      const std::string metrics = testing::HttpGet(node.admin_port, "/metrics");
      const size_t at = metrics.find(std::string("\n") + kSessionsOpen);
      if (at == std::string::npos) continue;
      if (metrics[at + 1 + sizeof kSessionsOpen - 1] != '0') return name;
    }
    return "";
  }

  testing::TempDir dir_;
  std::map<std::string, Node> nodes_;
};

TEST_F(ClusterReaderProcessTest, TheAnswerIsRightWhenTheNodeOfAQuestionIsKilled) {
  PutToBoth();
  for (const char* transport : {"grpc", "auto"}) {
    const ChildResult calm = testing::RunChild(kQuire, AskArgs(transport));
    ASSERT_EQ(calm.exit_code, 0) << calm.err;
    const std::string expected = json::parse(calm.out)["answer"];

    ChildProcess ask(kQuire, AskArgs(transport), dir_ / "ask.err");
    const TimePoint deadline = SystemClock().Now() + kReaderPatience;
    std::string killed;
    while ((killed = NodeWithSession()).empty() && SystemClock().Now() < deadline) {
      SystemClock().Sleep(std::chrono::milliseconds(2));
    }
    ASSERT_FALSE(killed.empty()) << ask.Stderr();
    nodes_[killed].process->Signal(SIGKILL);
    nodes_[killed].process->Wait();
    const std::string out = ask.ReadAll();
    ASSERT_EQ(ask.Wait(), 0) << out << ask.Stderr();
    EXPECT_EQ(json::parse(out)["answer"], expected);
    EXPECT_GE(json::parse(out)["cluster"]["node_changes"], 1) << out;
    EXPECT_EQ(json::parse(out)["recomputed_here"], false) << "the other node was read";
    Start(killed);
  }
}

}  // namespace
}  // namespace quire
