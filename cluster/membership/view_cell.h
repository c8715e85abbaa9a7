// SPDX-License-Identifier: Apache-2.0
//
// ViewCell: the newest view of a membership, and threads that wait for another one. Thread-safety:
// all methods may be called concurrently.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_VIEW_CELL_H_
#define QUIRE_CLUSTER_MEMBERSHIP_VIEW_CELL_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "cluster/view/cluster_view.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire::cluster {

class ViewCell {
 public:
  using Condition = std::function<bool(const ClusterView&)>;

  explicit ViewCell(ClusterView view)
      : view_(std::make_shared<const ClusterView>(std::move(view))) {}

  void Set(ClusterView view) QUIRE_EXCLUDES(mutex_) {
    auto next = std::make_shared<const ClusterView>(std::move(view));
    MutexLock lock(mutex_);
    view_ = std::move(next);
    changed_.NotifyAll();
  }
  std::shared_ptr<const ClusterView> Get() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return view_;
  }
  /// Waits until `is_reached` holds for the view, `timeout` at most.
  std::shared_ptr<const ClusterView> WaitFor(const Condition& is_reached, Duration timeout) const
      QUIRE_EXCLUDES(mutex_) {
    const TimePoint deadline = SystemClock().Now() + std::min(timeout, kLongestWait);
    MutexLock lock(mutex_);
    while (!is_reached(*view_)) {
      const Duration left = deadline - SystemClock().Now();
      if (left <= Duration::zero()) break;
      changed_.WaitFor(mutex_, left);
    }
    return view_;
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::shared_ptr<const ClusterView> view_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_VIEW_CELL_H_
