// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/cluster_pass.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <utility>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "cluster/placement/placement.h"
#include "cluster/replica/replica_plan.h"
#include "cluster/view/view_proto.h"
#include "quire/connect.h"
#include "quire/v1/cluster.pb.h"
#include "transport/transport.h"

namespace quire::cli {
namespace {

constexpr Duration kPollEvery = std::chrono::milliseconds(200);
constexpr Duration kSayEvery = std::chrono::seconds(5);

/// Calls a method without arguments.
template <typename Reply>
StatusOr<Reply> CallNode(const CommandContext& context, const cluster::Member& member,
                         std::string_view method) {
  ConnectOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.token, context.Token());
  QUIRE_ASSIGN_OR_RETURN(const auto transport, ConnectGrpc(member.address, options));
  CallMessage answer;
  const Status called = transport->Call(
      std::string("quire.v1.").append(method), {}, &answer,
      {.tenant = context.options.tenant_name(), .timeout = context.options.call_timeout()});
  QUIRE_RETURN_IF_ERROR(Annotate(called, "node ", member.name));
  Reply reply;
  if (reply.ParseFromString(answer.control)) return reply;
  return Internal("node ", member.name, " answered no ", reply.GetTypeName());
}

}  // namespace

StatusOr<v1::ReplicaProgressReply> ClusterPass::Ask(const cluster::Member& member) const {
  return CallNode<v1::ReplicaProgressReply>(context_, member, "Replica/Progress");
}

Status ClusterPass::CheckLimit() const {
  if (SystemClock().Now() < context_.options.limit()) return OkStatus();
  return DeadlineExceeded("documents are still being moved; the nodes go on by themselves");
}

Status ClusterPass::AwaitView(const cluster::ClusterView& view) const {
  for (const cluster::Member& member : view.members) {
    while (member.Serves()) {
      QUIRE_ASSIGN_OR_RETURN(const auto reply,
                             CallNode<v1::ClusterViewReply>(context_, member, "Cluster/View"));
      const auto seen = cluster::FromProto(reply.view());
      QUIRE_RETURN_IF_ERROR(seen.status());
      if (cluster::SamePlacement(*seen, view)) break;
      QUIRE_RETURN_IF_ERROR(CheckLimit());
      SystemClock().Sleep(kPollEvery);
    }
  }
  return OkStatus();
}

Status ClusterPass::Start(const cluster::ClusterView& view) {
  const uint32_t replicas = view.settings.replicas;
  const cluster::Placement placement(std::make_shared<const cluster::ClusterView>(view));
  shortfall_ = cluster::Shortfall(placement.OwnersOf({}, replicas), replicas);
  for (const cluster::Member& member : view.members) {
    if (!member.Serves()) continue;
    QUIRE_ASSIGN_OR_RETURN(const auto before, Ask(member));
    QUIRE_RETURN_IF_ERROR(
        CallNode<v1::StartPassReply>(context_, member, "Replica/StartPass").status());
    nodes_.push_back({.member = member, .before = before, .now = before});
  }
  return OkStatus();
}

bool ClusterPass::IsDone(const Node& node) {
  return node.now.passes() > node.before.passes() && !node.now.pass_runs() &&
         node.now.copies_pending() == 0 && node.now.releases_pending() == 0;
}

std::vector<uint64_t> ClusterPass::Work() const {
  std::vector<uint64_t> work;
  for (const Node& node : nodes_) {
    const v1::ReplicaProgressReply& now = node.now;
    work.insert(work.end(), {now.copies_pending(), now.releases_pending(), now.copied_bytes(),
                             now.pass_runs() ? now.names_compared() + 1 : 0});
  }
  return work;
}

Status ClusterPass::Stuck(Duration patience) const {
  std::string left;
  for (const Node& node : nodes_) {
    if (!IsDone(node)) left.append("; ").append(Left(node));
  }
  if (!shortfall_.empty()) left.append("; ").append(shortfall_);
  return FailedPrecondition("nothing has moved for ",
                            std::chrono::duration_cast<std::chrono::seconds>(patience).count(),
                            " s", left, ". The nodes try again by themselves");
}

Status ClusterPass::Wait(Duration patience) {
  TimePoint now = SystemClock().Now();
  TimePoint say_at = now + kSayEvery, moved_at = now;
  for (std::vector<uint64_t> work;;) {
    for (Node& node : nodes_) {
      QUIRE_ASSIGN_OR_RETURN(node.now, Ask(node.member));
    }
    if (std::ranges::all_of(nodes_, &IsDone)) return OkStatus();
    if (const Status limit = CheckLimit(); !limit.ok()) {
      SayLeft();
      return limit;
    }
    now = SystemClock().Now();
    if (std::exchange(work, Work()) != work) moved_at = now;
    if (now - moved_at >= patience) return Stuck(patience);
    if (now >= say_at) {
      SayLeft();
      say_at = now + kSayEvery;
    }
    SystemClock().Sleep(kPollEvery);
  }
}

std::string ClusterPass::Left(const Node& node) const {
  std::string text = "node " + node.member.name + ": " + std::to_string(node.now.copies_pending()) +
                     " to copy, " + std::to_string(node.now.releases_pending()) + " to hand over";
  if (node.now.failures() > node.before.failures()) {
    text += "; last failure: " + node.now.last_failure();
  }
  return text;
}

void ClusterPass::SayLeft() const {
  for (const Node& node : nodes_) {
    if (!IsDone(node)) context_.err << Left(node) << "\n";
  }
}

void ClusterPass::Print() const {
  if (context_.options.json) {
    Json json = {{"nodes", Json::array()}};
    for (const Node& node : nodes_) {
      json["nodes"].push_back(
          {{"name", node.member.name},
           {"names_compared", node.now.names_compared()},
           {"copied_bytes", node.now.copied_bytes() - node.before.copied_bytes()},
           {"copies_pending", node.now.copies_pending()},
           {"releases_pending", node.now.releases_pending()},
           {"failures", node.now.failures() - node.before.failures()}});
    }
    PrintJsonLine(context_.out, json);
    return;
  }
  Table table({{"NODE"}, {"NAMES", Table::kRight}, {"BYTES COPIED", Table::kRight}});
  for (const Node& node : nodes_) {
    table.AddRow({node.member.name, FormatCount(node.now.names_compared()),
                  FormatCount(node.now.copied_bytes() - node.before.copied_bytes())});
  }
  table.Print(context_.out);
}

}  // namespace quire::cli
