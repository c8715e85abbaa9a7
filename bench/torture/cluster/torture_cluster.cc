// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/torture_cluster.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "bench/torture/cluster/await.h"
#include "cluster/view/view_proto.h"
#include "common/base/net_address.h"
#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/v1/cluster.pb.h"
#include "transport/transport.h"

namespace quire::torture {
namespace {

constexpr const char* kName = "torture";
constexpr std::string_view kListening = "quired listening on ";
constexpr uint32_t kMostFlippedBits = 16;

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
  QUIRE_RETURN_IF_ERROR(started->MakeNetwork());
  QUIRE_RETURN_IF_ERROR(started->StartEtcd());
  for (uint32_t i = 0; i < options.nodes; ++i) QUIRE_RETURN_IF_ERROR(started->MakeNode(i));
  QUIRE_RETURN_IF_ERROR(started->AwaitJoined());
  return started;
}

TortureCluster::~TortureCluster() = default;

std::vector<std::string> TortureCluster::addresses() const {
  std::vector<std::string> addresses;
  for (const Node& node : nodes_) addresses.push_back(node.links->address());
  return addresses;
}

/// Hosts are numbered: those of the nodes, then those of etcd.
Status TortureCluster::MakeNetwork() {
  if (options_.network == ClusterNetwork::kLoopback) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(network_, BridgedNetwork::Make());
  for (uint32_t i = 0; i < options_.nodes + kEtcdMembers; ++i) {
    QUIRE_RETURN_IF_ERROR(network_->AddHost().status());
  }
  return OkStatus();
}

Status TortureCluster::StartEtcd() {
  std::vector<std::string> hosts;
  for (uint32_t i = 0; i < kEtcdMembers; ++i) {
    hosts.push_back(network_ != nullptr ? BridgedNetwork::AddressOf(options_.nodes + i)
                                        : "127.0.0.1");
  }
  const auto launch = [this](size_t member, const std::string& log,
                             const std::vector<std::string>& command) {
    return Launch(options_.nodes + static_cast<uint32_t>(member), log, command);
  };
  QUIRE_ASSIGN_OR_RETURN(
      etcd_, EtcdGroup::Start(
                 {.directory = options_.directory, .hosts = std::move(hosts), .launch = launch}));
  admin_ = std::make_unique<cluster::ClusterAdmin>(etcd_->client(), kName);
  return OkStatus();
}

Status TortureCluster::MakeNode(uint32_t number) {
  Node& node = nodes_.emplace_back();
  node.name = "node-" + std::to_string(number);
  node.host = number;
  QUIRE_ASSIGN_OR_RETURN(
      node.disk,
      NodeDisk::Make(options_.directory + "/" + node.name,
                     network_ != nullptr ? NodeDisk::Kind::kMounted : NodeDisk::Kind::kDirectory));
  NodeLinks::Options links = {.network = network_.get(),
                              .host = number,
                              .etcd = etcd_->endpoints(),
                              .seed = options_.seed + number};
  for (uint32_t i = 0; i < options_.nodes; ++i) {
    if (i != number) links.peers.push_back(i);
  }
  for (uint32_t i = 0; i < kEtcdMembers; ++i) links.etcd_hosts.push_back(options_.nodes + i);
  QUIRE_ASSIGN_OR_RETURN(node.links, NodeLinks::Make(std::move(links)));
  return StartNode(&node);
}

StatusOr<std::unique_ptr<Child>> TortureCluster::Launch(uint32_t host, const std::string& log,
                                                        const std::vector<std::string>& command) {
  std::vector<std::string> shell = {"/bin/sh", "-c", "exec \"$@\" 2>>\"$0\"",
                                    options_.directory + "/" + log};
  std::ranges::copy(command, std::back_inserter(shell));
  if (network_ == nullptr) return Child::Start(std::move(shell));
  std::unique_ptr<Child> child;
  QUIRE_RETURN_IF_ERROR(network_->RunAt(host, [&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(child, Child::Start(std::move(shell)));
    return OkStatus();
  }));
  return child;
}

std::vector<std::string> TortureCluster::CommandOf(const Node& node) const {
  std::string etcd;
  for (const std::string& member : node.links->etcd()) etcd += (etcd.empty() ? "" : ",") + member;
  return {options_.server,
          "--data-dir",
          node.disk->data_dir(),
          "--listen",
          "127.0.0.1:0",
          "--dram-bytes",
          "64MiB",
          "--ssd-bytes",
          "384MiB",
          "--transports",
          "grpc",
          "--cluster",
          kName,
          "--etcd",
          etcd,
          "--node",
          node.name,
          "--advertise",
          node.links->address(),
          "--node-lease-seconds",
          "2"};
}

Status TortureCluster::StartNode(Node* node) {
  QUIRE_ASSIGN_OR_RETURN(node->process, Launch(node->host, node->name + ".log", CommandOf(*node)));
  std::string line;
  if (!node->process->ReadLine(&line) || !line.starts_with(kListening)) {
    return Unavailable(node->name, " did not start, it said: '", line, "'; see ",
                       options_.directory, "/", node->name, ".log");
  }
  QUIRE_ASSIGN_OR_RETURN(const NetAddress address,
                         NetAddress::ParseServer(line.substr(kListening.size())));
  node->links->SetTarget(address.port());
  return OkStatus();
}

Status TortureCluster::AwaitJoined() {
  QUIRE_RETURN_IF_ERROR(Await("the joining of all nodes", [this] {
    const auto view = admin_->Read();
    return view.ok() && view->members.size() == options_.nodes;
  }));
  QUIRE_RETURN_IF_ERROR(
      admin_->Change({.replicas = options_.replicas, .min_replicas = options_.replicas}).status());
  return AwaitWhole();
}

Status TortureCluster::KillChild(Child* child) {
  child->Kill();
  return child->AwaitKilled();
}

Status TortureCluster::DamageDisk(const Node& node) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t flipped, node.disk->FlipBits(kMostFlippedBits, random_));
  flipped_bits_ += flipped;
  return OkStatus();
}

Status TortureCluster::Begin(const ScheduledFault& fault) {
  Node& node = nodes_[fault.node];
  switch (fault.kind) {
    case ClusterFault::kKill:
      return KillChild(node.process.get());
    case ClusterFault::kStop:
      node.process->Stop();
      return OkStatus();
    case ClusterFault::kEtcdLeader:
      return etcd_->KillLeader();
    case ClusterFault::kEtcdRestart:
      return etcd_->KillAll();
    case ClusterFault::kDiskFull:
      return node.disk->Fill();
    case ClusterFault::kDiskError:
      return node.disk->Break();
    case ClusterFault::kDiskDamage:
      QUIRE_RETURN_IF_ERROR(KillChild(node.process.get()));
      return DamageDisk(node);
    default:
      return node.links->Begin(fault.kind);
  }
}

Status TortureCluster::End(const ScheduledFault& fault) {
  Node& node = nodes_[fault.node];
  switch (fault.kind) {
    case ClusterFault::kKill:
    case ClusterFault::kDiskDamage:
      return StartNode(&node);
    case ClusterFault::kStop:
      node.process->Continue();
      return OkStatus();
    case ClusterFault::kEtcdLeader:
    case ClusterFault::kEtcdRestart:
      return etcd_->StartDead();
    case ClusterFault::kDiskFull:
      return node.disk->Free();
    case ClusterFault::kDiskError:
      QUIRE_RETURN_IF_ERROR(KillChild(node.process.get()));
      QUIRE_RETURN_IF_ERROR(node.disk->Mend());
      return StartNode(&node);
    default:
      return node.links->End(fault.kind);
  }
}

bool TortureCluster::IsWhole() {
  std::vector<const Node*> left;
  for (const Node& node : nodes_) {
    if (node.process != nullptr) left.push_back(&node);
  }
  return std::ranges::all_of(left, [&](const Node* asked) {
    const cluster::ClusterView view = ViewAt(asked->links->address());
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
  QUIRE_RETURN_IF_ERROR(node.disk->Lose());
  // Refused while its lease lasts.
  return Await("the removal of a lost node", [&] { return admin_->Remove(node.name).ok(); });
}

}  // namespace quire::torture
