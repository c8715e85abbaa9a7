// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/cluster_era.h"

#include <utility>

namespace quire::cluster {

StatusOr<ClusterEra> EraIn(const etcdserverpb::RangeResponse& range) {
  ClusterEra era;
  if (range.kvs().empty()) return era;
  const Status parsed = FromJsonText(kClusterKey, range.kvs(0).value(), &era.cluster);
  if (!parsed.ok()) return DataLoss("etcd's record ", Message(parsed));
  era.mod_revision = range.kvs(0).mod_revision();
  return era;
}

EraCell::EraCell(std::string_view cluster_name)
    : cluster_name_(cluster_name), key_(ClusterPrefix(cluster_name) + std::string(kClusterKey)) {}

void EraCell::Bind(const std::string& cluster_id) {
  MutexLock lock(mutex_);
  cluster_id_ = cluster_id;
}

Status EraCell::CheckCluster(const v1::ClusterRecord& cluster) const {
  if (cluster_id_.empty() || cluster_id_ == cluster.cluster_id()) return OkStatus();
  if (cluster.cluster_id().empty()) {
    return Unavailable("etcd holds no record of cluster ", cluster_name_,
                       ": it has lost its data; restore the newest backup");
  }
  return Unavailable("etcd holds another cluster named ", cluster_name_, " (", cluster.cluster_id(),
                     " instead of ", cluster_id_, "): correct --etcd, or restore its backup");
}

Status EraCell::Follow(EtcdClient* client) {
  etcdserverpb::RangeRequest request;
  request.set_key(key_);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client->Read(request));
  QUIRE_ASSIGN_OR_RETURN(ClusterEra era, EraIn(range));
  MutexLock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(CheckCluster(era.cluster));
  if (!era.cluster.cluster_id().empty()) cluster_id_ = era.cluster.cluster_id();
  era_ = std::move(era);
  return OkStatus();
}

StatusOr<ClusterEra> EraCell::Check(const etcdserverpb::RangeResponse& range) {
  QUIRE_ASSIGN_OR_RETURN(ClusterEra era, EraIn(range));
  MutexLock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(CheckCluster(era.cluster));
  if (era_ && RevisionBase(era_->cluster) != RevisionBase(era.cluster)) {
    return Unavailable("etcd was restored from a backup; names of documents wait until this node ",
                       "has joined cluster ", cluster_name_, " again");
  }
  if (!era.cluster.cluster_id().empty()) cluster_id_ = era.cluster.cluster_id();
  era_ = era;
  return era;
}

ClusterEra EraCell::Get() const {
  MutexLock lock(mutex_);
  return era_.value_or(ClusterEra());
}

}  // namespace quire::cluster
