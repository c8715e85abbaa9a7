// SPDX-License-Identifier: Apache-2.0
//
// Membership: the seam by which servers, routers and commands learn the members of a cluster. A
// view is immutable, and a newer one takes its place. When the source is away the last view stays,
// and Frozen says why: reads go on by it, and what would change the cluster fails.
//
// Implementations: EtcdMembership, StaticMembership. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_MEMBERSHIP_H_
#define QUIRE_CLUSTER_MEMBERSHIP_MEMBERSHIP_H_

#include <functional>
#include <memory>

#include "cluster/view/cluster_view.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::cluster {

class Membership {
 public:
  virtual ~Membership() = default;

  /// The newest view; never null. It has no members before the source was reached.
  virtual std::shared_ptr<const ClusterView> View() const = 0;
  /// OK while the view is current, or why it may be old.
  virtual Status Frozen() const = 0;
  /// Waits until `is_reached(view)` holds, `timeout` at most. Returns the newest view.
  virtual std::shared_ptr<const ClusterView> WaitFor(
      const std::function<bool(const ClusterView&)>& is_reached, Duration timeout) const = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_MEMBERSHIP_H_
