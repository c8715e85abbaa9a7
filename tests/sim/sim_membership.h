// SPDX-License-Identifier: Apache-2.0
//
// SimMembership: membership of a simulated node. It joins by the product's rules and records,
// renews its lease and follows the records, all from one task. It stands in for EtcdMember and
// EtcdMembership, which have threads. Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_MEMBERSHIP_H_
#define QUIRE_TESTS_SIM_SIM_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cluster/etcd/etcd_client.h"
#include "cluster/etcd/etcd_mirror.h"
#include "cluster/membership/join_rules.h"
#include "cluster/membership/membership.h"
#include "cluster/view/cluster_view.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

inline constexpr char kSimCluster[] = "sim";
inline constexpr Duration kSimLease = std::chrono::seconds(4);

class SimMembership final : public cluster::Membership {
 public:
  /// `joiner` has the node as it describes itself. The identity is that of `disk`.
  SimMembership(SimScheduler* scheduler, cluster::EtcdClient* client, SimDisk* disk,
                cluster::Joiner joiner);

  /// Joins, waiting for its former lease. The errors are those of CheckJoin and of etcd.
  Status Join();
  /// Renews and follows once; its task calls it all the time.
  void Follow();
  /// OK while the lease is renewed, or why the node takes no documents.
  const Status& Standing() const { return standing_; }

  std::shared_ptr<const cluster::ClusterView> View() const override { return view_; }
  Status Frozen() const override { return frozen_; }
  std::shared_ptr<const cluster::ClusterView> WaitFor(
      const std::function<bool(const cluster::ClusterView&)>&, Duration) const override {
    return view_;
  }

 private:
  StatusOr<cluster::EtcdSnapshot> ReadKeys();
  StatusOr<bool> TryEnter(const cluster::ClusterRecords& records);
  Status Renew();

  SimScheduler& scheduler_;
  cluster::EtcdClient& client_;
  SimDisk& disk_;
  cluster::Joiner joiner_;
  int64_t lease_ = 0;
  TimePoint renewed_{};
  cluster::EtcdSnapshot keys_;  ///< As they were when the view was made.
  std::shared_ptr<const cluster::ClusterView> view_ =
      std::make_shared<const cluster::ClusterView>();
  Status standing_ = Unavailable("it has not joined");
  Status frozen_ = Unavailable("etcd was not reached yet");
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_MEMBERSHIP_H_
