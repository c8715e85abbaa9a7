// SPDX-License-Identifier: Apache-2.0
//
// EtcdMembership: follows a cluster's records in etcd. The view freezes while etcd is away. It
// freezes for good when etcd holds another cluster than the one seen first: etcd has lost its data
// then. Following it would forget nodes that still hold data.
//
// Ownership: the client outlives the membership.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_ETCD_MEMBERSHIP_H_
#define QUIRE_CLUSTER_MEMBERSHIP_ETCD_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <string>

#include "cluster/etcd/etcd_client.h"
#include "cluster/etcd/etcd_mirror.h"
#include "cluster/membership/membership.h"
#include "cluster/membership/view_cell.h"
#include "common/base/threads/mutex.h"

namespace quire::cluster {

/// Checks that `next` may follow `known`. FAILED_PRECONDITION, with the remedy, when etcd lost
/// data.
[[nodiscard]] Status CheckSuccession(const ClusterView& known, const ClusterView& next);

class EtcdMembership final : public Membership, private EtcdMirror::Observer {
 public:
  /// Hears Frozen each time that it is found out, from the membership's thread.
  using OnFrozen = std::function<void(const Status&)>;

  /// Connects in the background. `on_frozen` may be empty.
  EtcdMembership(EtcdClient* client, std::string cluster_name, OnFrozen on_frozen = {});

  std::shared_ptr<const ClusterView> View() const override { return view_.Get(); }
  Status Frozen() const override QUIRE_EXCLUDES(mutex_);
  std::shared_ptr<const ClusterView> WaitFor(
      const std::function<bool(const ClusterView&)>& is_reached, Duration timeout) const override {
    return view_.WaitFor(is_reached, timeout);
  }

 private:
  void OnKeys(const EtcdSnapshot& snapshot) override;
  void OnAway(const Status& why) override { SetFrozen(why); }
  void OnReached() override;
  void SetFrozen(const Status& status) QUIRE_EXCLUDES(mutex_);

  const std::string cluster_name_;
  const OnFrozen on_frozen_;
  ViewCell view_;
  bool is_lost_ = false;  ///< The last keys were refused. Used by the mirror's thread only.
  mutable Mutex mutex_;
  Status frozen_ QUIRE_GUARDED_BY(mutex_);
  EtcdMirror mirror_;  ///< Last member, because its thread uses the others.
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_ETCD_MEMBERSHIP_H_
