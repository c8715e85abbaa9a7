// SPDX-License-Identifier: Apache-2.0
#include "client/routing/cluster_members.h"

#include <algorithm>

#include "cluster/view/view_proto.h"
#include "quire/v1/cluster.pb.h"

namespace quire::internal {

StatusOr<std::shared_ptr<Transport>> ClusterMembers::ConnectTo(const std::string& address) {
  MutexLock lock(mutex_);
  std::shared_ptr<Transport>& node = nodes_[address];
  if (node != nullptr) return node;
  auto made =
      options_.connect ? options_.connect(address) : ConnectGrpc(address, options_.connect_options);
  if (made.ok()) node = *made;
  return made;
}

StatusOr<CallMessage> ClusterMembers::Answer(const std::string& address, std::string_view method,
                                             std::string request, TimePoint end) {
  const Duration timeout = std::min<Duration>(options_.node_timeout, end - options_.clock->Now());
  if (timeout <= Duration::zero()) {
    return DeadlineExceeded("node at ", address, ": there was no time left to ask it");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<Transport> node, ConnectTo(address));
  CallMessage answer;
  QUIRE_RETURN_IF_ERROR(
      Annotate(node->Call(method, {.control = std::move(request), .payload = {}}, &answer,
                          {.tenant = options_.tenant, .timeout = timeout}),
               "node at ", address));
  return answer;
}

StatusOr<std::unique_ptr<PendingCall>> ClusterMembers::Start(const std::string& address,
                                                             std::string_view method,
                                                             std::string request) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<Transport> node, ConnectTo(address));
  return node->Start(method, {.control = std::move(request), .payload = {}},
                     {.tenant = options_.tenant, .timeout = options_.node_timeout});
}

void ClusterMembers::NoteDoubt() {
  MutexLock lock(mutex_);
  known_is_old_ = true;
}

std::vector<std::string> ClusterMembers::AddressesToAsk() {
  std::vector<std::string> addresses = options_.servers;
  MutexLock lock(mutex_);
  if (!known_) return addresses;
  for (const cluster::Member& member : known_->placement->view().members) {
    if (member.Serves()) addresses.push_back(member.address);
  }
  return addresses;
}

std::optional<ClusterMembers::Told> ClusterMembers::Known() {
  MutexLock lock(mutex_);
  return known_;
}

StatusOr<ClusterMembers::Told> ClusterMembers::ToldBy(const std::string& address,
                                                      const std::optional<Told>& known,
                                                      TimePoint end) {
  QUIRE_ASSIGN_OR_RETURN(
      const auto reply,
      Ask<v1::ClusterViewReply>(address, "quire.v1.Cluster/View", v1::ClusterViewRequest(), end));
  QUIRE_ASSIGN_OR_RETURN(cluster::ClusterView view, cluster::FromProto(reply.view()));
  if (view.id.empty() && !reply.frozen().empty()) {
    return Unavailable("node at ", address, " knows no members yet: ", reply.frozen());
  }
  if (known && known->placement->view().id != view.id) {
    return FailedPrecondition("node at ", address, " is of another cluster named ", view.name, " (",
                              view.id, " instead of ", known->placement->view().id,
                              "): make a new DocumentRouter to use that one");
  }
  return Told{.placement = std::make_shared<const cluster::Placement>(
                  std::make_shared<const cluster::ClusterView>(std::move(view))),
              .frozen = reply.frozen()};
}

StatusOr<ClusterMembers::Told> ClusterMembers::Read(TimePoint end) {
  const std::optional<Told> known = Known();
  Status failure;
  std::optional<Told> best;
  const auto is_settled = [&] {
    return best && best->frozen.empty() && (!known || best->epoch() >= known->epoch());
  };
  for (const std::string& address : AddressesToAsk()) {
    auto told = ToldBy(address, known, end);
    if (!told.ok()) {
      if (failure.ok() || IsFailedPrecondition(told.status())) failure = told.status();
      continue;
    }
    const bool is_better = !best || std::pair(told->frozen.empty(), told->epoch()) >
                                        std::pair(best->frozen.empty(), best->epoch());
    if (is_better) best = *std::move(told);
    if (is_settled()) break;
  }
  if (!best && IsFailedPrecondition(failure)) return failure;
  if (!best) return Unavailable("no server tells the members of the cluster: ", Message(failure));
  // A frozen view may be older than what is known. Where all current ones are, etcd was set back.
  if (known && !best->frozen.empty() && best->epoch() < known->epoch()) {
    best->placement = known->placement;
  }
  MutexLock lock(mutex_);
  known_ = best;
  read_at_ = options_.clock->Now();
  known_is_old_ = false;
  return *best;
}

StatusOr<ClusterMembers::Told> ClusterMembers::Current(TimePoint end) {
  {
    MutexLock lock(mutex_);
    if (known_ && !known_is_old_ && options_.clock->Now() - read_at_ < options_.view_age) {
      return *known_;
    }
  }
  return Read(end);
}

}  // namespace quire::internal
