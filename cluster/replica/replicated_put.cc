// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replicated_put.h"

#include <algorithm>

#include "cluster/placement/placement.h"
#include "cluster/placement/placement_key.h"
#include "common/base/observe/log.h"

namespace quire::cluster {
namespace {

/// Most time that an owner gets for extras, which it can do without.
constexpr Duration kExtrasTime = std::chrono::seconds(3);

}  // namespace

StatusOr<std::vector<Member>> ReplicatedPut::Prepare(std::string_view tenant,
                                                     const DocumentName& name,
                                                     const SegmentKey& tip, TimePoint deadline) {
  const std::vector<Member> owners = Place(tenant, name).other_owners;
  const TimePoint now = SystemClock().Now();
  const TimePoint until = now + (deadline - now) / 2;
  const std::vector<Status> ends = CallAll(owners, [&](const Member& owner) {
    return peers_->CopyChain(owner, tenant, tip, node_, until);
  });
  std::vector<Member> copied;
  Status failure;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (ends[i].ok()) {
      copied.push_back(owners[i]);
    } else {
      failure = ends[i];
    }
  }
  QUIRE_RETURN_IF_ERROR(CheckEnough(1 + copied.size(), failure));
  return copied;
}

StatusOr<uint32_t> ReplicatedPut::Adopt(std::string_view tenant, const DocumentName& name,
                                        const std::vector<Member>& members, TimePoint deadline) {
  const std::vector<Status> ends = CallAll(
      members, [&](const Member& member) { return peers_->Adopt(member, tenant, name, deadline); });
  uint32_t copies = 1;
  Status failure;
  for (const Status& end : ends) {
    if (end.ok()) ++copies;
    if (!end.ok()) failure = end;
  }
  QUIRE_RETURN_IF_ERROR(CheckEnough(copies, failure));
  return copies;
}

StatusOr<uint32_t> ReplicatedPut::CopyCached(std::string_view tenant,
                                             const SegmentKey& first_segment, const SegmentKey& tip,
                                             TimePoint deadline) {
  const Placement placement(membership_->View());
  const ClusterView& view = placement.view();
  const uint32_t wanted = view.settings.replicas;
  uint32_t copies = 1;
  Status failure;
  // One more than are wanted, since this node may be among them or not.
  for (const uint32_t member : placement.OwnersOf(KeyOfChain(first_segment), wanted + 1).members) {
    const Member& node = view.members[member];
    if (node.name == node_ || copies >= wanted) continue;
    const TimePoint now = SystemClock().Now();
    const Status status = peers_->CopyChain(node, tenant, tip, node_, now + (deadline - now) / 2);
    if (status.ok()) {
      ++copies;
    } else {
      failure = Annotate(status, "node ", node.name);
    }
  }
  QUIRE_RETURN_IF_ERROR(CheckEnough(copies, failure));
  return copies;
}

void ReplicatedPut::ShareExtras(std::string_view tenant, const DocumentName& name,
                                TimePoint deadline) {
  const TimePoint until = std::min(deadline, SystemClock().Now() + kExtrasTime);
  const std::vector<Status> ends = CallAll(
      Place(tenant, name).other_owners,
      [&](const Member& owner) { return peers_->CopyExtras(owner, tenant, name, node_, until); });
  for (const Status& end : ends) {
    if (!end.ok()) LogInfo("extras_not_copied", {{"why", end.ToString()}});
  }
}

std::vector<Status> ReplicatedPut::CallAll(const std::vector<Member>& members,
                                           const std::function<Status(const Member&)>& call) const {
  std::vector<Status> ends(members.size());
  std::vector<std::function<void()>> tasks;
  for (size_t i = 0; i < members.size(); ++i) {
    tasks.push_back([&, i] { ends[i] = Annotate(call(members[i]), "node ", members[i].name); });
  }
  run_all_(tasks);
  return ends;
}

NamePlace ReplicatedPut::Place(std::string_view tenant, const DocumentName& name) const {
  return PlaceOf(Placement(membership_->View()), node_, tenant, name);
}

Status ReplicatedPut::CheckEnough(uint64_t copies, const Status& failure) const {
  const auto settings = membership_->View()->settings;
  const uint64_t wanted = std::min(settings.min_replicas, settings.replicas);
  if (copies >= wanted) return OkStatus();
  const std::string why = failure.ok() ? "too few nodes are up" : failure.ToString();
  return Unavailable("the document would have ", copies, " of at least ", wanted,
                     " copies (min_replicas): ", why);
}

}  // namespace quire::cluster
