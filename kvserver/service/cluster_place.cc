// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/cluster_place.h"

#include "cluster/placement/placement.h"

namespace quire::kvserver {

Status CheckTakes(const ClusterPlace& place, std::string_view tenant, const DocumentName& name) {
  if (place.membership == nullptr) return OkStatus();
  if (place.standing) {
    const Status standing = place.standing();
    if (!standing.ok()) {
      return Unavailable("node ", place.node, " takes no new documents: ", Message(standing));
    }
  }
  const cluster::Placement placement(place.membership->View());
  const cluster::ClusterView& view = placement.view();
  const cluster::PlacementKey key = cluster::KeyOfDocument(tenant, name.collection, name.name);
  const uint32_t replicas = place.keeps_replicas() ? view.settings.replicas : 1;
  const cluster::Owners owners = placement.OwnersOf(key, replicas);
  if (owners.members.empty()) {
    return Unavailable("no node of cluster ", view.name, " takes documents: start or undrain one");
  }
  for (const uint32_t member : owners.members) {
    if (view.members[member].name == place.node) return OkStatus();
  }
  const cluster::Member& owner = view.members[owners.members[0]];
  return FailedPrecondition("the document belongs to node ", owner.name, " at ", owner.address,
                            " (epoch ", view.epoch, "), not to ", place.node);
}

}  // namespace quire::kvserver
