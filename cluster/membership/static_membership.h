// SPDX-License-Identifier: Apache-2.0
//
// StaticMembership: a view that a file or a test gives. It changes only by Set. All members that
// the file lists are taken as up, so a dead one costs its callers an attempt.
//
// The file is a quire.v1.ClusterView as JSON:
//   {"name": "demo", "members": [{"name": "a", "address": "10.0.0.1:7410", "zone": "east"}]}
#ifndef QUIRE_CLUSTER_MEMBERSHIP_STATIC_MEMBERSHIP_H_
#define QUIRE_CLUSTER_MEMBERSHIP_STATIC_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cluster/membership/membership.h"
#include "cluster/membership/view_cell.h"

namespace quire::cluster {

class StaticMembership final : public Membership {
 public:
  explicit StaticMembership(ClusterView view) : view_(std::move(view)) {}
  /// INVALID_ARGUMENT naming the file and what is wrong in it; NOT_FOUND when it is not there.
  static StatusOr<std::unique_ptr<StaticMembership>> ReadFile(const std::string& path);

  void Set(ClusterView view) { view_.Set(std::move(view)); }

  std::shared_ptr<const ClusterView> View() const override { return view_.Get(); }
  Status Frozen() const override { return OkStatus(); }
  std::shared_ptr<const ClusterView> WaitFor(
      const std::function<bool(const ClusterView&)>& is_reached, Duration timeout) const override {
    return view_.WaitFor(is_reached, timeout);
  }

 private:
  ViewCell view_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_STATIC_MEMBERSHIP_H_
