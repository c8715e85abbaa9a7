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
  std::vector<Member> copied;
  Status failure;
  for (const Member& owner : Place(tenant, name).other_owners) {
    // A silent owner leaves time for the others, and for the put itself.
    const TimePoint now = SystemClock().Now();
    const Status status = peers_->CopyChain(owner, tenant, tip, node_, now + (deadline - now) / 2);
    if (status.ok()) {
      copied.push_back(owner);
    } else {
      failure = Annotate(status, "node ", owner.name);
    }
  }
  QUIRE_RETURN_IF_ERROR(CheckEnough(1 + copied.size(), failure));
  return copied;
}

StatusOr<uint32_t> ReplicatedPut::Adopt(std::string_view tenant, const DocumentName& name,
                                        const std::vector<Member>& members, TimePoint deadline) {
  uint32_t copies = 1;
  Status failure;
  for (const Member& member : members) {
    const Status status = peers_->Adopt(member, tenant, name, deadline);
    if (status.ok()) {
      ++copies;
    } else {
      failure = Annotate(status, "node ", member.name);
    }
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
  for (const Member& owner : Place(tenant, name).other_owners) {
    const TimePoint until = std::min(deadline, SystemClock().Now() + kExtrasTime);
    const Status shared = peers_->CopyExtras(owner, tenant, name, node_, until);
    if (shared.ok()) continue;
    LogInfo("extras_not_copied", {{"node", owner.name}, {"why", shared.ToString()}});
  }
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
