// SPDX-License-Identifier: Apache-2.0
//
// A cluster of real processes: etcd, three servers, and the programs that people use. Documents are
// put where they belong, nodes die and come back, and etcd goes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/etcd/testing/etcd_process.h"
#include "cluster/view/view_proto.h"
#include "common/metrics/testing/http_get.h"
#include "quire/client.h"
#include "quire/connect.h"
#include "quire/document_router.h"
#include "quire/layout.h"
#include "quire/v1/cluster.pb.h"
#include "tests/integration/fault_document.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/transport.h"

namespace quire {
namespace {

using cluster::MemberState;
using nlohmann::json;
using testing::ChildProcess;
using testing::ChildResult;
using ::testing::HasSubstr;

constexpr Duration kClusterPatience = std::chrono::seconds(30);

class ClusterProcessTest : public ::testing::Test {
 protected:
  struct Node {
    std::unique_ptr<ChildProcess> process;
    std::string address;
    int admin_port = 0;
    bool runs = false;  ///< It listens, and was not ended.
  };

  /// Starts a node, or starts it again with its disk, and waits until every server knows it.
  void Start(const std::string& name) {
    Launch(name);
    Node& node = nodes_[name];
    std::string line;
    const std::string prefix = "quired listening on ";
    ASSERT_TRUE(node.process->ReadLine(&line) && line.starts_with(prefix))
        << line << node.process->Stderr();
    node.address = line.substr(prefix.size());
    node.runs = true;
    std::ifstream(dir_ / (name + ".admin")) >> node.admin_port;
    ASSERT_TRUE(WaitForState(name, MemberState::kUp)) << node.process->Stderr();
  }
  void Launch(const std::string& name) {
    Node& node = nodes_[name];
    std::filesystem::remove(dir_ / (name + ".admin"));
    node.process = std::make_unique<ChildProcess>(QUIRE_BINARY_DIR "/bin/quired",
                                                  std::vector<std::string>{"--data-dir",
                                                                           dir_ / name,
                                                                           "--listen",
                                                                           "127.0.0.1:0",
                                                                           "--dram-bytes",
                                                                           "32MiB",
                                                                           "--ssd-bytes",
                                                                           "64MiB",
                                                                           "--transports",
                                                                           "grpc",
                                                                           "--admin-listen",
                                                                           "127.0.0.1:0",
                                                                           "--admin-port-file",
                                                                           dir_ / (name + ".admin"),
                                                                           "--cluster",
                                                                           "demo",
                                                                           "--etcd",
                                                                           etcd_.address(),
                                                                           "--node",
                                                                           name,
                                                                           "--node-lease-seconds",
                                                                           lease_seconds_},
                                                  dir_ / (name + ".err"));
  }
  void StartAll() {
    for (const char* name : {"a", "b", "c"}) Start(name);
    std::vector<std::string> servers;
    for (const auto& [name, node] : nodes_) servers.push_back(node.address);
    // Views are read anew for each document, so that the test need not wait for them.
    router_ = DocumentRouter::Create({.servers = servers, .view_age = Duration::zero()}).value();
  }
  /// Returns the exit status.
  int End(const std::string& name, int signal) {
    nodes_[name].runs = false;
    nodes_[name].process->Signal(signal);
    return nodes_[name].process->Wait();
  }
  void Kill(const std::string& name) { End(name, SIGKILL); }

  static ChildResult Quire(std::vector<std::string> args) {
    return testing::RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
  }
  json ClusterJson(std::vector<std::string> args) {
    args.insert(args.begin(), "cluster");
    args.insert(args.end(), {"--etcd", etcd_.address(), "--json"});
    return json::parse(Quire(std::move(args)).out, nullptr, /*allow_exceptions=*/false);
  }
  /// Waits until every server that runs sees `name` in this state. Each follows etcd by itself.
  bool WaitForState(const std::string& name, MemberState state) {
    return WaitUntil([&] {
      return std::ranges::all_of(nodes_, [&](const auto& node) {
        return !node.second.runs || StateOf(name, node.second.address) == state;
      });
    });
  }
  /// State of `name` in the view of the server at `address`.
  static std::optional<MemberState> StateOf(const std::string& name, const std::string& address) {
    CallMessage answer;
    v1::ClusterViewReply reply;
    const Status status = ConnectGrpc(address).value()->Call("quire.v1.Cluster/View", {}, &answer,
                                                             {.tenant = "default"});
    if (!status.ok() || !reply.ParseFromString(answer.control)) return std::nullopt;
    const auto view = cluster::FromProto(reply.view());
    const cluster::Member* const member = view.ok() ? view->Find(name) : nullptr;
    return member != nullptr ? std::optional(member->state) : std::nullopt;
  }
  static bool WaitUntil(const std::function<bool()>& holds) {
    const TimePoint deadline = SystemClock().Now() + kClusterPatience;
    while (!holds()) {
      if (SystemClock().Now() >= deadline) return false;
      SystemClock().Sleep(std::chrono::milliseconds(50));
    }
    return true;
  }

  static std::unique_ptr<Client> ClientOf(const std::string& address) {
    return Client::Create({.transport = ConnectGrpc(address).value(),
                           .deadline = std::chrono::seconds(5),
                           .retry = {.max_attempts = 2}})
        .value();
  }
  static Status Put(const std::string& address, const std::string& name) {
    const auto client = ClientOf(address);
    const KvSpec spec = testing::FaultSpec();
    const std::vector<TokenId> tokens(spec.segment_tokens(), 1);
    Payload payload;
    payload.Append(std::vector<std::byte>(SegmentBytes(spec, spec.segment_pages)));
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip,
                           client->PutSegment(spec, kRootKey, tokens, payload));
    return client->RegisterDocument({.name = name}, tip).status();
  }
  /// Puts a document that there was not before where it belongs.
  Status PutNew() {
    const std::string name = "new-" + std::to_string(num_new_++);
    QUIRE_ASSIGN_OR_RETURN(const std::string place, router_->FindPlace({.name = name}));
    return Put(place, name);
  }
  std::string AddressNotOf(const std::string& address) const {
    for (const auto& [name, node] : nodes_) {
      if (node.address != address) return node.address;
    }
    return "";
  }
  std::string Ready(const std::string& name) {
    return testing::HttpGet(nodes_[name].admin_port, "/readyz");
  }

  testing::TempDir dir_;
  cluster::testing::EtcdProcess etcd_;
  std::map<std::string, Node> nodes_;
  std::unique_ptr<DocumentRouter> router_;
  std::string lease_seconds_ = "5";
  int num_new_ = 0;
};

TEST_F(ClusterProcessTest, DocumentsOfOtherNodesAnswerWhileOneIsDown) {
  StartAll();
  std::map<std::string, std::vector<std::string>> documents;  // By address.
  // Ids of nodes are random, so any number of documents may miss a node.
  for (int i = 0; i < 12 || (documents.size() < 3 && i < 1000); ++i) {
    const std::string name = "document-" + std::to_string(i);
    const auto place = router_->FindPlace({.name = name});
    ASSERT_TRUE(place.ok()) << place.status();
    const Status refused = Put(AddressNotOf(*place), name);
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.ToString(), HasSubstr(*place)) << "the owner is named";
    ASSERT_TRUE(Put(*place, name).ok());
    documents[*place].push_back(name);
  }
  ASSERT_EQ(documents.size(), 3u) << "every node has some";

  const std::string dead = nodes_["b"].address;
  Kill("b");
  for (const auto& [address, names] : documents) {
    for (const std::string& name : names) {
      const auto holder = router_->FindHolder({.name = name});
      if (address == dead) {
        EXPECT_FALSE(holder.ok()) << name;
        continue;
      }
      ASSERT_TRUE(holder.ok()) << name << holder.status();
      EXPECT_EQ(*holder, address) << name;
      EXPECT_TRUE(ClientOf(address)->Stat(DocumentName{.name = name}).ok());
    }
  }
  ASSERT_TRUE(WaitForState("b", MemberState::kLost));
  EXPECT_THAT(ClusterJson({"status"})["problems"].dump(), HasSubstr("node b is lost"));
  EXPECT_EQ(router_->FindHolder({.name = documents[dead][0]}).status().code(),
            StatusCode::kUnavailable);
  const auto next_owner = router_->FindPlace({.name = documents[dead][0]});
  ASSERT_TRUE(next_owner.ok()) << next_owner.status();
  EXPECT_NE(*next_owner, dead);

  Start("b");
  for (const std::string& name : documents[dead]) {
    const auto holder = router_->FindHolder({.name = name});
    ASSERT_TRUE(holder.ok()) << name << holder.status();
    EXPECT_EQ(*holder, nodes_["b"].address) << name;
  }
}

TEST_F(ClusterProcessTest, PeoplePutAskDrainAndRemove) {
  StartAll();
  std::string servers;
  for (const auto& [name, node] : nodes_) servers += (servers.empty() ? "" : ",") + node.address;
  std::ofstream(dir_ / "note.txt") << "The code of the door is 4711.";
  const ChildResult put = Quire({"--server", servers, "put", dir_ / "note.txt"});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(Quire({"--server", servers, "stat", "note.txt"}).exit_code, 0);
  EXPECT_EQ(Quire({"--server", servers, "stat", "other.txt"}).exit_code, 1);
  const ChildResult ask = Quire(
      {"--server", servers, "ask", "--document", "note.txt", "--question", "What is the code?"});
  EXPECT_EQ(ask.exit_code, 0) << ask.err;

  const std::string owner = ClusterJson({"where", "note.txt"})["owners"][0];
  EXPECT_EQ(ClusterJson({"drain", owner})["state"], "draining");
  EXPECT_NE(ClusterJson({"where", "note.txt"})["owners"][0], owner);
  EXPECT_EQ(Quire({"--server", servers, "stat", "note.txt"}).exit_code, 0) << "it is still there";
  EXPECT_THAT(Quire({"cluster", "remove", owner, "--etcd", etcd_.address()}).err,
              HasSubstr("stop it before"));
  EXPECT_EQ(End(owner, SIGTERM), 0);
  ASSERT_TRUE(WaitForState(owner, MemberState::kLeft));
  EXPECT_EQ(ClusterJson({"remove", owner})["state"], "removed");
  EXPECT_EQ(ClusterJson({"status"})["nodes"], 2);
  EXPECT_EQ(ClusterJson({"settings", "--replicas", "1"})["replicas"], 1);
  EXPECT_THAT(Quire({"cluster", "settings", "--replicas", "2", "--etcd", etcd_.address()}).err,
              HasSubstr("nothing copies documents"));
}

TEST_F(ClusterProcessTest, ANodeThatWaitsForItsTurnSaysSoAndStopsAtOnce) {
  lease_seconds_ = "60";
  Start("a");
  Kill("a");
  Launch("a");  // At another address, so that it waits for the former lease.
  ASSERT_TRUE(WaitUntil([&] {
    std::ifstream(dir_ / "a.admin") >> nodes_["a"].admin_port;
    return Ready("a").find("not_a_member") != std::string::npos;
  }));
  EXPECT_EQ(End("a", SIGTERM), 0) << nodes_["a"].process->Stderr();
  std::string line;
  EXPECT_FALSE(nodes_["a"].process->ReadLine(&line)) << "it joined before it stopped: " << line;
}

TEST_F(ClusterProcessTest, WithoutEtcdReadsGoOnAndNewDocumentsWait) {
  StartAll();
  const std::string place = router_->FindPlace({.name = "kept"}).value();
  ASSERT_TRUE(Put(place, "kept").ok());
  EXPECT_THAT(Ready("a"), ::testing::Not(HasSubstr("cluster_frozen")));

  etcd_.Kill();
  ASSERT_TRUE(WaitUntil([&] { return Ready("a").find("cluster_frozen") != std::string::npos; }));
  EXPECT_EQ(router_->FindHolder({.name = "kept"}).value(), place);
  EXPECT_TRUE(ClientOf(place)->Stat(DocumentName{.name = "kept"}).ok());
  Status refused;
  ASSERT_TRUE(WaitUntil([&] { return IsUnavailable(refused = PutNew()); })) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("takes no new documents"));
  const ChildResult status =
      Quire({"cluster", "status", "--etcd", etcd_.address(), "--cluster", "demo"});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_THAT(status.err, HasSubstr("etcd at " + etcd_.address()));

  etcd_.Start();
  EXPECT_TRUE(WaitUntil([&] { return PutNew().ok(); }));
  EXPECT_TRUE(WaitUntil([&] { return Ready("a").find("cluster_frozen") == std::string::npos; }));
}

}  // namespace
}  // namespace quire
