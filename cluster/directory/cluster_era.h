// SPDX-License-Identifier: Apache-2.0
//
// ClusterEra: what the cluster's record says of revisions. A restore of a backup into an empty etcd
// begins an era: etcd counts from 1 again, and a base is added so that revisions never go back.
// Changes between the backup and the restore are lost.
//
// EraCell: the era that a process lives in. An answer of etcd counts only when it shows the same
// era. Nodes therefore take nothing from an etcd without data, or from one that is being restored.
// Thread-safety: EraCell's methods may be called concurrently.
#ifndef QUIRE_CLUSTER_DIRECTORY_CLUSTER_ERA_H_
#define QUIRE_CLUSTER_DIRECTORY_CLUSTER_ERA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/etcd/etcd_client.h"
#include "cluster/membership/cluster_records.h"
#include "common/base/threads/mutex.h"
#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

struct ClusterEra {
  v1::ClusterRecord cluster;  ///< Empty before the cluster is founded.
  int64_t mod_revision = 0;   ///< Revision of the record; 0: it is not there.

  /// Revision as nodes know it, of one of etcd's.
  uint64_t Known(int64_t revision) const {
    return RevisionBase(cluster) + static_cast<uint64_t>(revision);
  }
};

/// The era in a range of the record's key. DATA_LOSS when the record cannot be read.
[[nodiscard]] StatusOr<ClusterEra> EraIn(const etcdserverpb::RangeResponse& range);

class EraCell {
 public:
  explicit EraCell(std::string_view cluster_name);

  /// Key of the cluster's record, which every read of names reads, too.
  const std::string& key() const { return key_; }
  /// Refuses answers of any other cluster from now on. Without it the first record that is seen
  /// decides.
  void Bind(const std::string& cluster_id) QUIRE_EXCLUDES(mutex_);
  /// Takes up the present era, after a restore. UNAVAILABLE when etcd does not answer, lacks the
  /// cluster's record, or has another cluster's.
  Status Follow(EtcdClient* client) QUIRE_EXCLUDES(mutex_);
  /// The era of an answer, which has a range of `key`. UNAVAILABLE when it is another era.
  StatusOr<ClusterEra> Check(const etcdserverpb::RangeResponse& range) QUIRE_EXCLUDES(mutex_);
  /// The era that was seen last; that of an unfounded cluster before.
  ClusterEra Get() const QUIRE_EXCLUDES(mutex_);

 private:
  Status CheckCluster(const v1::ClusterRecord& cluster) const QUIRE_REQUIRES(mutex_);

  const std::string cluster_name_;
  const std::string key_;
  mutable Mutex mutex_;
  std::string cluster_id_ QUIRE_GUARDED_BY(mutex_);  ///< Empty: not known yet.
  std::optional<ClusterEra> era_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_CLUSTER_ERA_H_
