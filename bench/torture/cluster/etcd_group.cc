// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/etcd_group.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "bench/torture/cluster/await.h"
#include "bench/torture/network/free_port.h"
#include "common/wire/limits.h"
#include "etcd/etcd.grpc.pb.h"
#include "quire/clock.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"

namespace quire::torture {
namespace {

constexpr const char* kProgram = "/usr/bin/etcd";
constexpr Duration kStatusPatience = std::chrono::seconds(1);

StatusOr<std::string> FreeAddress(const std::string& host) {
  QUIRE_ASSIGN_OR_RETURN(const uint16_t port, FreePort());
  return host + ":" + std::to_string(port);
}

}  // namespace

StatusOr<std::unique_ptr<EtcdGroup>> EtcdGroup::Start(Options options) {
  std::unique_ptr<EtcdGroup> group(new EtcdGroup(std::move(options)));
  for (const std::string& host : group->options_.hosts) {
    Member& member = group->members_.emplace_back();
    member.name = "etcd-" + std::to_string(group->members_.size() - 1);
    QUIRE_ASSIGN_OR_RETURN(member.client, FreeAddress(host));
    QUIRE_ASSIGN_OR_RETURN(member.peer, FreeAddress(host));
  }
  QUIRE_ASSIGN_OR_RETURN(group->client_,
                         cluster::EtcdClient::Create({.endpoints = group->endpoints()}));
  QUIRE_RETURN_IF_ERROR(group->StartDead());
  return group;
}

std::vector<std::string> EtcdGroup::endpoints() const {
  std::vector<std::string> endpoints;
  for (const Member& member : members_) endpoints.push_back(member.client);
  return endpoints;
}

std::string EtcdGroup::InitialCluster() const {
  std::string all;
  for (const Member& member : members_) {
    all += (all.empty() ? "" : ",") + member.name + "=http://" + member.peer;
  }
  return all;
}

Status EtcdGroup::StartMember(size_t number) {
  Member& member = members_[number];
  const std::string client = "http://" + member.client, peer = "http://" + member.peer;
  const std::vector<std::string> command = {kProgram,
                                            "--data-dir",
                                            options_.directory + "/" + member.name,
                                            "--name",
                                            member.name,
                                            "--listen-client-urls",
                                            client,
                                            "--advertise-client-urls",
                                            client,
                                            "--listen-peer-urls",
                                            peer,
                                            "--initial-advertise-peer-urls",
                                            peer,
                                            "--initial-cluster",
                                            InitialCluster(),
                                            "--logger",
                                            "zap",
                                            "--log-outputs",
                                            "stderr",
                                            "--auto-compaction-mode",
                                            "periodic",
                                            "--auto-compaction-retention",
                                            "1m"};
  QUIRE_ASSIGN_OR_RETURN(member.process, options_.launch(number, member.name + ".log", command));
  return OkStatus();
}

Status EtcdGroup::StartDead() {
  for (size_t number = 0; number < members_.size(); ++number) {
    if (members_[number].process == nullptr) QUIRE_RETURN_IF_ERROR(StartMember(number));
  }
  return Await("the start of etcd", [this] { return client_->ReadPrefix("/").ok(); });
}

Status EtcdGroup::Kill(Member* member) {
  member->process->Kill();
  QUIRE_RETURN_IF_ERROR(Annotate(member->process->AwaitKilled(), member->name));
  member->process.reset();
  return OkStatus();
}

bool EtcdGroup::Leads(const Member& member) {
  const auto channel = MakeGrpcChannel(member.client, wire::kDefaultMaxMessageBytes);
  if (!channel.ok()) return false;
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kStatusPatience));
  etcdserverpb::StatusResponse response;
  const grpc::Status status =
      etcdserverpb::Maintenance::NewStub(*channel)->Status(&context, {}, &response);
  return status.ok() && response.leader() == response.header().member_id();
}

Status EtcdGroup::KillLeader() {
  QUIRE_RETURN_IF_ERROR(Await("a leader of etcd",
                              [this] { return std::ranges::any_of(members_, &EtcdGroup::Leads); }));
  const auto leader = std::ranges::find_if(members_, &EtcdGroup::Leads);
  if (leader == members_.end()) return Unavailable("the leader of etcd changed");
  return Kill(&*leader);
}

Status EtcdGroup::KillAll() {
  for (Member& member : members_) {
    if (member.process != nullptr) QUIRE_RETURN_IF_ERROR(Kill(&member));
  }
  return OkStatus();
}

}  // namespace quire::torture
