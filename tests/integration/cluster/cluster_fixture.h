// SPDX-License-Identifier: Apache-2.0
//
// ClusterFixture: a cluster of real processes, an etcd and servers, each with a disk of its own
// that outlives it. Nodes are started, killed, and started again. Only tests use it.
#ifndef QUIRE_TESTS_INTEGRATION_CLUSTER_CLUSTER_FIXTURE_H_
#define QUIRE_TESTS_INTEGRATION_CLUSTER_CLUSTER_FIXTURE_H_

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

namespace quire::testing {

inline constexpr Duration kClusterPatience = std::chrono::seconds(30);

class ClusterFixture : public ::testing::Test {
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
    ASSERT_TRUE(WaitForState(name, cluster::MemberState::kUp)) << node.process->Stderr();
  }
  void Launch(const std::string& name) {
    Node& node = nodes_[name];
    std::filesystem::remove(dir_ / (name + ".admin"));
    std::vector<std::string> flags = {"--data-dir", dir_ / name, "--listen", "127.0.0.1:0"};
    flags.insert(flags.end(), {"--dram-bytes", "32MiB", "--ssd-bytes", "64MiB"});
    flags.insert(flags.end(), {"--transports", "grpc", "--admin-listen", "127.0.0.1:0"});
    flags.insert(flags.end(), {"--admin-port-file", dir_ / (name + ".admin")});
    flags.insert(flags.end(), {"--cluster", "demo", "--etcd", etcd_.address(), "--node", name});
    flags.insert(flags.end(), {"--node-lease-seconds", lease_seconds_});
    flags.insert(flags.end(), more_flags_.begin(), more_flags_.end());
    node.process = std::make_unique<ChildProcess>(QUIRE_BINARY_DIR "/bin/quired", flags,
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
    return RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
  }
  nlohmann::json ClusterJson(std::vector<std::string> args) {
    args.insert(args.begin(), "cluster");
    args.insert(args.end(), {"--etcd", etcd_.address(), "--json"});
    return nlohmann::json::parse(Quire(std::move(args)).out, nullptr, /*allow_exceptions=*/false);
  }
  /// Waits until every server that runs sees `name` in this state. Each follows etcd by itself.
  bool WaitForState(const std::string& name, cluster::MemberState state) {
    return WaitUntil([&] {
      return std::ranges::all_of(nodes_, [&](const auto& node) {
        return !node.second.runs || StateOf(name, node.second.address) == state;
      });
    });
  }
  /// State of `name` in the view of the server at `address`.
  std::optional<cluster::MemberState> StateOf(const std::string& name, const std::string& address) {
    CallMessage answer;
    v1::ClusterViewReply reply;
    const Status status = ConnectGrpc(address, connect_)
                              .value()
                              ->Call("quire.v1.Cluster/View", {}, &answer, {.tenant = "default"});
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

  std::unique_ptr<Client> ClientOf(const std::string& address) const {
    return Client::Create({.transport = ConnectGrpc(address, connect_).value(),
                           .deadline = std::chrono::seconds(5),
                           .retry = {.max_attempts = 2}})
        .value();
  }
  Status Put(const std::string& address, const std::string& name) {
    const auto client = ClientOf(address);
    const KvSpec spec = FaultSpec();
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
  std::string Ready(const std::string& name) { return HttpGet(nodes_[name].admin_port, "/readyz"); }

  TempDir dir_;
  cluster::testing::EtcdProcess etcd_;
  std::map<std::string, Node> nodes_;
  std::unique_ptr<DocumentRouter> router_;
  std::string lease_seconds_ = "5";
  std::vector<std::string> more_flags_;  ///< Given to every node.
  ConnectOptions connect_;               ///< Options of the test's own connections.
  int num_new_ = 0;
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_CLUSTER_CLUSTER_FIXTURE_H_
