// SPDX-License-Identifier: Apache-2.0
//
// EtcdMember: keeps this node a member. It joins under a lease and renews the lease from a thread
// of its own. When the lease has ended meanwhile, it joins again by the same rules. Destruction
// ends the membership at once and marks the node as left.
//
// While etcd is away the node goes on serving, and its lease ends in etcd when etcd is back too
// late. Thread-safety: all methods may be called concurrently. Ownership: the client and what the
// callbacks use outlive the member.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_ETCD_MEMBER_H_
#define QUIRE_CLUSTER_MEMBERSHIP_ETCD_MEMBER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/etcd/etcd_client.h"
#include "cluster/membership/join_rules.h"
#include "cluster/view/cluster_view.h"
#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/base/threads/periodic_task.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::cluster {

struct EtcdMemberOptions {
  std::string cluster_name;
  std::string data_dir;  ///< Has the node's identity.
  Member self;           ///< The node id and the incarnation are filled in.
  /// This process listens on the address of `self`. A former process that did is dead then.
  bool listens_on_address = false;
  Duration lease = std::chrono::seconds(10);
  /// Offsets of this clock to those of members that serve, in microseconds. Asked before a join;
  /// empty: the clock is not checked.
  std::function<std::vector<int64_t>(const ClusterView&)> clock_offsets = {};
  /// Called once the rules of joining hold, before each attempt to enter, the first one and those
  /// after a lost lease. An error ends the attempt. Empty: none.
  std::function<Status()> before_entry = {};
  /// Hears, from the member's thread, if the node is a member: OK, or why it is not at present.
  std::function<void(const Status&)> on_standing = {};
  /// Ends the waits of a join when true. Asked by any thread; empty: never.
  std::function<bool()> is_stopping = {};
};

class EtcdMember {
 public:
  /// Joins, waiting for the lease of a former process of this node where needed. Errors: those of
  /// CheckJoin and CheckClock; UNAVAILABLE when etcd does not answer; CANCELLED when stopping.
  static StatusOr<std::unique_ptr<EtcdMember>> Join(EtcdClient* client, EtcdMemberOptions options);
  /// Checks the rules of CheckJoin, before anything else of the data directory is told to others.
  /// Changes nothing. UNAVAILABLE when etcd does not answer.
  static Status CheckMayJoin(EtcdClient* client, EtcdMemberOptions options);
  /// Leaves.
  ~EtcdMember();

  /// OK while the node is a member as far as it knows.
  Status Standing() const QUIRE_EXCLUDES(mutex_);
  /// As it was registered.
  const Member& self() const { return options_.self; }
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  EtcdMember(EtcdClient* client, EtcdMemberOptions options, v1::NodeIdentity identity);
  /// Joins under a new lease.
  Status Enter();
  /// One attempt; false when another change came in between.
  StatusOr<bool> TryEnter(const ClusterRecords& records);
  Joiner AsJoiner() const;
  /// Reads the records whose keys begin with `name`; all by default.
  StatusOr<ClusterRecords> ReadRecords(const std::string& name = "");
  /// Waits until a live record of this name is gone or is our own former one.
  Status AwaitTurn(ClusterRecords* records);
  Status CheckOwnClock(const ClusterRecords& records);
  /// Renews the lease. NOT_FOUND when that, or this process's live record, is gone.
  /// FAILED_PRECONDITION while another process of this node has taken its place.
  Status KeepPlace();
  void Renew();
  void Leave();
  void SetStanding(const Status& status) QUIRE_EXCLUDES(mutex_);
  bool IsStopping() const;

  EtcdClient& client_;
  EtcdMemberOptions options_;
  v1::NodeIdentity identity_;
  int64_t lease_ = 0;  ///< 0: none. Used by Join, then by the thread of keeper_ only.
  std::atomic<bool> is_ending_{false};  ///< The destructor has begun.
  Counter renewals_, renewal_failures_, joins_;
  mutable Mutex mutex_;
  Status standing_ QUIRE_GUARDED_BY(mutex_);
  std::unique_ptr<PeriodicTask> keeper_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_ETCD_MEMBER_H_
