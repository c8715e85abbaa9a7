// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replica_plan.h"

#include <algorithm>

#include "cluster/placement/placement_key.h"

namespace quire::cluster {

NamePlace PlaceOf(const Placement& placement, std::string_view node, std::string_view tenant,
                  const DocumentName& name) {
  const ClusterView& view = placement.view();
  const PlacementKey key = KeyOfDocument(tenant, name.collection, name.name);
  NamePlace place;
  // A drained node may be one of too few. All others keep what too few would have.
  const Member* const self = view.Find(node);
  const bool drains = self != nullptr && self->state == MemberState::kDraining;
  place.min_owners = drains ? 1 : view.settings.replicas;
  for (const uint32_t member : placement.OwnersOf(key, placement.CopiesOf(key)).members) {
    if (view.members[member].name == node) {
      place.owned = true;
    } else {
      place.other_owners.push_back(view.members[member]);
    }
  }
  for (const uint32_t member : placement.ReadOrder(key)) {
    if (view.members[member].name != node) place.other_holders.push_back(view.members[member]);
  }
  return place;
}

ReplicaTask TaskOf(const NamePlace& place, Held held) {
  if (place.owned) return held == Held::kWhole ? ReplicaTask::kNone : ReplicaTask::kCopy;
  return held == Held::kNot ? ReplicaTask::kNone : ReplicaTask::kRelease;
}

bool MayRelease(const NamePlace& place, const std::vector<bool>& owners_hold) {
  return !place.owned && owners_hold.size() >= place.min_owners &&
         owners_hold.size() == place.other_owners.size() &&
         std::ranges::all_of(owners_hold, [](bool holds) { return holds; });
}

bool SamePlacement(const ClusterView& a, const ClusterView& b) {
  const auto same = [](const Member& x, const Member& y) {
    return x.name == y.name && x.node_id == y.node_id && x.state == y.state && x.zone == y.zone &&
           x.weight == y.weight && x.incarnation == y.incarnation;
  };
  return a.settings.replicas == b.settings.replicas &&
         std::ranges::equal(a.members, b.members, same);
}

}  // namespace quire::cluster
