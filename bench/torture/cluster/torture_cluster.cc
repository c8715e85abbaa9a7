// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/torture_cluster.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "cluster/view/view_proto.h"
#include "common/base/net_address.h"
#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/v1/cluster.pb.h"
#include "transport/transport.h"

namespace quire::torture {
namespace {

constexpr const char* kName = "torture";
constexpr const char* kEtcdProgram = "/usr/bin/etcd";
constexpr std::string_view kListening = "quired listening on ";
constexpr Duration kStatePatience = std::chrono::seconds(60);
constexpr Duration kStatePause = std::chrono::milliseconds(50);
constexpr Duration kDelay = std::chrono::milliseconds(100);
constexpr uint64_t kThrottledBytesPerSecond = uint64_t{128} << 10;

/// Waits until the condition holds.
Status Await(const std::string& what, const std::function<bool()>& holds) {
  const TimePoint deadline = SystemClock().Now() + kStatePatience;
  while (!holds()) {
    if (SystemClock().Now() > deadline) return Unavailable(what, " did not happen in a minute");
    SystemClock().Sleep(kStatePause);
  }
  return OkStatus();
}

/// A port that nothing listens on now. A proxy that listens there is closed again.
StatusOr<uint16_t> FreePort() {
  QUIRE_ASSIGN_OR_RETURN(const auto proxy, TcpProxy::Start());
  QUIRE_ASSIGN_OR_RETURN(const NetAddress address, NetAddress::ParseServer(proxy->address()));
  return address.port();
}

/// View of the server at `address`. No members when it does not answer.
cluster::ClusterView ViewAt(const std::string& address) {
  const auto transport = ConnectGrpc(address);
  if (!transport.ok()) return {};
  CallMessage answer;
  v1::ClusterViewReply reply;
  const Status status =
      (*transport)
          ->Call("quire.v1.Cluster/View", {}, &answer, {.timeout = std::chrono::seconds(1)});
  if (!status.ok() || !reply.ParseFromString(answer.control)) return {};
  auto view = cluster::FromProto(reply.view());
  return view.ok() ? *view : cluster::ClusterView();
}

}  // namespace

StatusOr<std::unique_ptr<TortureCluster>> TortureCluster::Start(
    const TortureClusterOptions& options) {
  std::unique_ptr<TortureCluster> started(new TortureCluster(options));
  QUIRE_ASSIGN_OR_RETURN(started->etcd_port_, FreePort());
  QUIRE_ASSIGN_OR_RETURN(started->etcd_peer_port_, FreePort());
  QUIRE_RETURN_IF_ERROR(started->StartEtcd());
  for (uint32_t i = 0; i < options.nodes; ++i) {
    Node& node = started->nodes_.emplace_back();
    node.name = "node-" + std::to_string(i);
    QUIRE_ASSIGN_OR_RETURN(node.front, TcpProxy::Start());
    QUIRE_ASSIGN_OR_RETURN(node.etcd, TcpProxy::Start());
    node.etcd->SetTarget(started->etcd_port_);
    QUIRE_RETURN_IF_ERROR(started->StartNode(&node));
  }
  QUIRE_RETURN_IF_ERROR(Await("the joining of all nodes", [&] {
    const auto view = started->admin_->Read();
    return view.ok() && view->members.size() == options.nodes;
  }));
  QUIRE_RETURN_IF_ERROR(
      started->admin_->Change({.replicas = options.replicas, .min_replicas = options.replicas})
          .status());
  QUIRE_RETURN_IF_ERROR(started->AwaitWhole());
  return started;
}

TortureCluster::~TortureCluster() = default;

std::vector<std::string> TortureCluster::addresses() const {
  std::vector<std::string> addresses;
  for (const Node& node : nodes_) addresses.push_back(node.front->address());
  return addresses;
}

StatusOr<std::unique_ptr<Child>> TortureCluster::Run(const std::string& log,
                                                     std::vector<std::string> command) {
  std::vector<std::string> shell = {"/bin/sh", "-c", "exec \"$@\" 2>>\"$0\"",
                                    options_.directory + "/" + log};
  std::ranges::move(command, std::back_inserter(shell));
  return Child::Start(std::move(shell));
}

Status TortureCluster::StartEtcd() {
  const std::string address = "127.0.0.1:" + std::to_string(etcd_port_);
  const std::string client = "http://" + address;
  const std::string peer = "http://127.0.0.1:" + std::to_string(etcd_peer_port_);
  QUIRE_ASSIGN_OR_RETURN(etcd_, Run("etcd.log", {kEtcdProgram,
                                                 "--data-dir",
                                                 options_.directory + "/etcd",
                                                 "--name",
                                                 kName,
                                                 "--listen-client-urls",
                                                 client,
                                                 "--advertise-client-urls",
                                                 client,
                                                 "--listen-peer-urls",
                                                 peer,
                                                 "--initial-advertise-peer-urls",
                                                 peer,
                                                 "--initial-cluster",
                                                 kName + ("=" + peer),
                                                 "--logger",
                                                 "zap",
                                                 "--log-outputs",
                                                 "stderr",
                                                 "--auto-compaction-mode",
                                                 "periodic",
                                                 "--auto-compaction-retention",
                                                 "1m"}));
  if (client_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(client_, cluster::EtcdClient::Create({.endpoints = {address}}));
    admin_ = std::make_unique<cluster::ClusterAdmin>(client_.get(), kName);
  }
  return Await("the start of etcd", [this] { return client_->ReadPrefix("/").ok(); });
}

Status TortureCluster::StartNode(Node* node) {
  QUIRE_ASSIGN_OR_RETURN(node->process,
                         Run(node->name + ".log", {options_.server,
                                                   "--data-dir",
                                                   options_.directory + "/" + node->name,
                                                   "--listen",
                                                   "127.0.0.1:0",
                                                   "--dram-bytes",
                                                   "64MiB",
                                                   "--ssd-bytes",
                                                   "512MiB",
                                                   "--transports",
                                                   "grpc",
                                                   "--cluster",
                                                   kName,
                                                   "--etcd",
                                                   node->etcd->address(),
                                                   "--node",
                                                   node->name,
                                                   "--advertise",
                                                   node->front->address(),
                                                   "--node-lease-seconds",
                                                   "2"}));
  std::string line;
  if (!node->process->ReadLine(&line) || !line.starts_with(kListening)) {
    return Unavailable(node->name, " did not start, it said: '", line, "'; see ",
                       options_.directory, "/", node->name, ".log");
  }
  QUIRE_ASSIGN_OR_RETURN(const NetAddress address,
                         NetAddress::ParseServer(line.substr(kListening.size())));
  node->front->SetTarget(address.port());
  return OkStatus();
}

Status TortureCluster::KillChild(Child* child) {
  child->Kill();
  return child->AwaitKilled();
}

Status TortureCluster::Begin(const ScheduledFault& fault) {
  Node& node = nodes_[fault.node];
  switch (fault.kind) {
    case ClusterFault::kKill:
      return KillChild(node.process.get());
    case ClusterFault::kStop:
      node.process->Stop();
      break;
    case ClusterFault::kPartition:
      node.front->Set({.holds = true});
      node.etcd->Set({.holds = true});
      break;
    case ClusterFault::kCut:
      node.front->Set({.cuts = true});
      break;
    case ClusterFault::kDelay:
      node.front->Set({.delay = kDelay});
      break;
    case ClusterFault::kThrottle:
      node.front->Set({.bytes_per_second = kThrottledBytesPerSecond});
      break;
    case ClusterFault::kEtcd:
      return KillChild(etcd_.get());
  }
  return OkStatus();
}

Status TortureCluster::End(const ScheduledFault& fault) {
  Node& node = nodes_[fault.node];
  node.front->Set({});
  node.etcd->Set({});
  switch (fault.kind) {
    case ClusterFault::kKill:
      return StartNode(&node);
    case ClusterFault::kStop:
      node.process->Continue();
      return OkStatus();
    case ClusterFault::kEtcd:
      return StartEtcd();
    default:
      return OkStatus();
  }
}

bool TortureCluster::IsWhole() {
  std::vector<const Node*> left;
  for (const Node& node : nodes_) {
    if (node.process != nullptr) left.push_back(&node);
  }
  return std::ranges::all_of(left, [&](const Node* asked) {
    const cluster::ClusterView view = ViewAt(asked->front->address());
    return view.members.size() == left.size() && view.settings.replicas == options_.replicas &&
           std::ranges::all_of(view.members, [](const cluster::Member& member) {
             return member.state == cluster::MemberState::kUp;
           });
  });
}

Status TortureCluster::AwaitWhole() {
  return Await("the healing of the cluster", [this] { return IsWhole(); });
}

Status TortureCluster::LoseDisk(uint32_t number) {
  Node& node = nodes_[number];
  QUIRE_RETURN_IF_ERROR(KillChild(node.process.get()));
  node.process.reset();
  std::error_code error;
  std::filesystem::remove_all(options_.directory + "/" + node.name, error);
  if (error) return Unavailable("cannot remove the disk of ", node.name, ": ", error.message());
  // Refused while its lease lasts.
  return Await("the removal of a lost node", [&] { return admin_->Remove(node.name).ok(); });
}

}  // namespace quire::torture
