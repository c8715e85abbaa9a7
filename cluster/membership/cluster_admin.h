// SPDX-License-Identifier: Apache-2.0
//
// ClusterAdmin: what an operator changes in a cluster's records: drain and undrain a node, remove
// one that is away, change settings. Each change is one transaction on the records that it read; it
// is tried again when others changed them meanwhile. Thread-safety: all methods may be called
// concurrently. Ownership: the client outlives the object.
//
// Errors: NOT_FOUND for a cluster or node that there is not; FAILED_PRECONDITION for a node in the
// wrong state; INVALID_ARGUMENT for settings out of range. Others are those of EtcdClient.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_CLUSTER_ADMIN_H_
#define QUIRE_CLUSTER_MEMBERSHIP_CLUSTER_ADMIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/etcd/etcd_client.h"
#include "cluster/membership/cluster_records.h"
#include "cluster/view/cluster_view.h"
#include "quire/status.h"

namespace quire::cluster {

/// A change of settings. An unset one stays as it is.
struct SettingsChange {
  std::optional<uint32_t> replicas = {};
  std::optional<uint32_t> max_clock_skew_millis = {};
  std::optional<uint32_t> min_replicas = {};
  std::optional<uint64_t> copy_bytes_per_second = {};
  std::optional<uint32_t> hot_reads_per_second = {};
  std::optional<uint32_t> hot_replicas = {};
  std::optional<uint32_t> hot_keep_seconds = {};

  bool is_empty() const { return *this == SettingsChange(); }
  friend bool operator==(const SettingsChange&, const SettingsChange&) = default;
};

class ClusterAdmin {
 public:
  ClusterAdmin(EtcdClient* client, std::string cluster_name)
      : client_(*client), cluster_name_(std::move(cluster_name)) {}

  /// Names of the clusters that etcd knows, in order.
  static StatusOr<std::vector<std::string>> ListClusters(EtcdClient* client);

  /// NOT_FOUND for a cluster that no node has joined.
  StatusOr<ClusterView> Read();
  /// A draining node serves what it has and takes no new runs, also after a restart.
  Status SetDraining(const std::string& node, bool draining);
  /// Forgets a node that left or is lost. Data that only it held is given up. Its disk is refused
  /// from then on.
  Status Remove(const std::string& node);
  /// Returns the settings after the change.
  StatusOr<ClusterSettings> Change(const SettingsChange& change);

 private:
  /// Adds to a transaction what the records call for, or refuses.
  using Edit = std::function<Status(const ClusterRecords&, etcdserverpb::TxnRequest&)>;
  Status Commit(const Edit& edit);
  StatusOr<ClusterRecords> ReadRecords();
  std::string Key(const std::string& name) const { return ClusterPrefix(cluster_name_) + name; }

  EtcdClient& client_;
  const std::string cluster_name_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_CLUSTER_ADMIN_H_
