// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_membership.h"

#include "cluster/membership/etcd_membership.h"

namespace quire::sim {

using cluster::ClusterRecords;
using cluster::JoinStep;

namespace {

constexpr Duration kTurnPause = std::chrono::milliseconds(300);
constexpr char kSimClusterId[] = "5157495245000000000000000000c1d1";

}  // namespace

SimMembership::SimMembership(SimScheduler* scheduler, cluster::EtcdClient* client, SimDisk* disk,
                             cluster::Joiner joiner)
    : scheduler_(*scheduler), client_(*client), disk_(*disk), joiner_(std::move(joiner)) {
  joiner_.cluster_name = kSimCluster;
  joiner_.self.incarnation = scheduler_.random().Next();
}

StatusOr<cluster::EtcdSnapshot> SimMembership::ReadKeys() {
  const std::string prefix = cluster::ClusterPrefix(kSimCluster);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.ReadPrefix(prefix));
  return cluster::SnapshotOf(range, prefix);
}

Status SimMembership::Join() {
  for (;;) {
    joiner_.identity = disk_.identity;
    QUIRE_ASSIGN_OR_RETURN(const cluster::EtcdSnapshot keys, ReadKeys());
    QUIRE_ASSIGN_OR_RETURN(const ClusterRecords records, cluster::ParseRecords(keys));
    QUIRE_ASSIGN_OR_RETURN(const JoinStep step, cluster::CheckJoin(joiner_, records));
    if (step == JoinStep::kEnter) {
      QUIRE_ASSIGN_OR_RETURN(const bool entered, TryEnter(records));
      if (entered) break;
    }
    scheduler_.Sleep(kTurnPause);
  }
  standing_ = OkStatus();
  return OkStatus();
}

StatusOr<bool> SimMembership::TryEnter(const ClusterRecords& records) {
  v1::ClusterRecord founding;
  founding.set_cluster_id(kSimClusterId);
  founding.set_min_protocol(cluster::kClusterProtocol);
  QUIRE_ASSIGN_OR_RETURN(const int64_t lease, client_.GrantLease(kSimLease));
  QUIRE_ASSIGN_OR_RETURN(const auto answer,
                         client_.Commit(cluster::JoinTxn(joiner_, records, founding, lease)));
  if (!answer.succeeded()) {
    (void)client_.RevokeLease(lease);  // It ends by itself otherwise.
    return false;
  }
  lease_ = lease;
  renewed_ = scheduler_.Now();
  disk_.identity.set_cluster_id(kSimClusterId);
  return true;
}

Status SimMembership::Renew() {
  if (scheduler_.Now() - renewed_ < kSimLease / 3) return OkStatus();
  const Status renewed = client_.KeepAlive(lease_);
  if (renewed.ok()) renewed_ = scheduler_.Now();
  return renewed;
}

void SimMembership::Follow() {
  standing_ = Renew();
  if (IsNotFound(standing_)) standing_ = Join();
  auto keys = ReadKeys();
  frozen_ = keys.status();
  if (!keys.ok() || keys->keys == keys_.keys) return;
  const auto records = cluster::ParseRecords(*keys);
  frozen_ = records.status();
  if (!records.ok()) return;
  cluster::ClusterView next = cluster::ViewOf(kSimCluster, *records);
  frozen_ = cluster::CheckSuccession(*view_, next);
  if (!frozen_.ok()) return;
  keys_ = *std::move(keys);
  view_ = std::make_shared<const cluster::ClusterView>(std::move(next));
}

}  // namespace quire::sim
