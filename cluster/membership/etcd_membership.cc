// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/etcd_membership.h"

#include <utility>

#include "cluster/membership/cluster_records.h"

namespace quire::cluster {

Status CheckSuccession(const ClusterView& known, const ClusterView& next) {
  if (known.id.empty()) return OkStatus();
  if (next.id == known.id && next.epoch >= known.epoch) return OkStatus();
  constexpr char kRemedy[] =
      "; the members known before stay in use: restore etcd's newest backup, or stop every node "
      "and "
      "start all with new data directories";
  if (next.id.empty()) {
    return FailedPrecondition("etcd has lost the records of cluster ", known.name, kRemedy);
  }
  if (next.id != known.id) {
    return FailedPrecondition("etcd holds another cluster named ", known.name, " (", next.id,
                              " instead of ", known.id, ")", kRemedy);
  }
  return FailedPrecondition("etcd was set back from revision ", known.epoch, " to ", next.epoch,
                            ": the members known before stay in use; restart the nodes, one after "
                            "another, to follow it");
}

EtcdMembership::EtcdMembership(EtcdClient* client, std::string cluster_name, OnFrozen on_frozen)
    : cluster_name_(std::move(cluster_name)),
      on_frozen_(std::move(on_frozen)),
      view_(ClusterView{.name = cluster_name_}),
      frozen_(Unavailable("etcd at ", client->endpoints(), " was not reached yet")),
      mirror_(client, ClusterPrefix(cluster_name_), this) {}

Status EtcdMembership::Frozen() const {
  MutexLock lock(mutex_);
  return frozen_;
}

void EtcdMembership::OnKeys(const EtcdSnapshot& snapshot) {
  const auto records = ParseRecords(snapshot);
  Status status = records.status();
  if (status.ok()) {
    ClusterView next = ViewOf(cluster_name_, *records);
    status = CheckSuccession(*view_.Get(), next);
    if (status.ok()) view_.Set(std::move(next));
  }
  is_lost_ = !status.ok();
  SetFrozen(status);
}

void EtcdMembership::OnReached() {
  if (!is_lost_) SetFrozen(OkStatus());
}

void EtcdMembership::SetFrozen(const Status& status) {
  {
    MutexLock lock(mutex_);
    frozen_ = status;
  }
  if (on_frozen_) on_frozen_(status);
}

}  // namespace quire::cluster
