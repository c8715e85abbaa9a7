// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replicated_put.h"

#include <algorithm>

#include "cluster/placement/placement.h"
#include "common/base/observe/log.h"

namespace quire::cluster {

StatusOr<std::vector<Member>> ReplicatedPut::Prepare(std::string_view tenant,
                                                     const DocumentName& name,
                                                     const SegmentKey& tip, TimePoint deadline) {
  std::vector<Member> copied;
  Status failure;
  for (const Member& owner : Place(tenant, name).other_owners) {
    const Status status = peers_->CopyChain(owner, tenant, tip, node_, deadline);
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
                                        const std::vector<Member>& members) {
  uint32_t copies = 1;
  Status failure;
  for (const Member& member : members) {
    const Status status = peers_->Adopt(member, tenant, name);
    if (status.ok()) {
      ++copies;
    } else {
      failure = Annotate(status, "node ", member.name);
    }
  }
  QUIRE_RETURN_IF_ERROR(CheckEnough(copies, failure));
  return copies;
}

void ReplicatedPut::ShareExtras(std::string_view tenant, const DocumentName& name) {
  for (const Member& owner : Place(tenant, name).other_owners) {
    const Status shared = peers_->CopyExtras(owner, tenant, name, node_);
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
