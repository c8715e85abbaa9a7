// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/cluster_admin.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cluster/etcd/etcd_requests.h"

namespace quire::cluster {
namespace {

constexpr int kMostChangeAttempts = 16;

StatusOr<Revised<v1::NodeRecord>> FindNode(const ClusterRecords& records, const std::string& node) {
  const auto found = records.nodes.find(node);
  if (found != records.nodes.end()) return found->second;
  return NotFound("the cluster has no node ", node, "; `quire cluster nodes` lists them");
}

}  // namespace

StatusOr<ClusterRecords> ClusterAdmin::ReadRecords() {
  const std::string prefix = ClusterPrefix(cluster_name_);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.ReadPrefix(prefix));
  QUIRE_ASSIGN_OR_RETURN(ClusterRecords records, ParseRecords(SnapshotOf(range, prefix)));
  if (records.cluster) return records;
  return NotFound("etcd at ", client_.endpoints(), " knows no cluster ", cluster_name_,
                  ": it begins when its first node joins");
}

StatusOr<std::vector<std::string>> ClusterAdmin::ListClusters(EtcdClient* client) {
  QUIRE_ASSIGN_OR_RETURN(const auto range, client->ReadPrefix(kAllClusters));
  const std::string suffix = "/" + std::string(kClusterKey);
  std::vector<std::string> names;
  for (const etcdserverpb::KeyValue& kv : range.kvs()) {
    const std::string_view name = std::string_view(kv.key()).substr(kAllClusters.size());
    const size_t slash = name.find('/');
    if (name.substr(std::min(slash, name.size())) == suffix) names.emplace_back(name, 0, slash);
  }
  return names;
}

StatusOr<ClusterView> ClusterAdmin::Read() {
  QUIRE_ASSIGN_OR_RETURN(const ClusterRecords records, ReadRecords());
  return ViewOf(cluster_name_, records);
}

Status ClusterAdmin::Commit(const Edit& edit) {
  for (int attempt = 0; attempt < kMostChangeAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(const ClusterRecords records, ReadRecords());
    etcdserverpb::TxnRequest txn;
    RequireRevision(txn, Key(std::string(kClusterKey)), records.cluster->mod_revision);
    QUIRE_RETURN_IF_ERROR(edit(records, txn));
    if (txn.success_size() == 0) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const auto answer, client_.Commit(txn));
    if (answer.succeeded()) return OkStatus();
  }
  return Unavailable("the records of cluster ", cluster_name_, " change all the time; try again");
}

Status ClusterAdmin::SetDraining(const std::string& node, bool draining) {
  return Commit([&](const ClusterRecords& records, etcdserverpb::TxnRequest& txn) -> Status {
    QUIRE_ASSIGN_OR_RETURN(auto found, FindNode(records, node));
    if (found.record.draining() == draining) return OkStatus();
    found.record.set_draining(draining);
    RequireRevision(txn, Key(NodeKey(node)), found.mod_revision);
    AddPut(txn, Key(NodeKey(node)), ToJsonText(found.record));
    return OkStatus();
  });
}

Status ClusterAdmin::Remove(const std::string& node) {
  bool tried = false;
  return Commit([&](const ClusterRecords& records, etcdserverpb::TxnRequest& txn) -> Status {
    // The reply of the first attempt may have been lost.
    if (tried && !records.nodes.contains(node)) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const auto found, FindNode(records, node));
    if (records.live.contains(node)) {
      return FailedPrecondition("node ", node, " is up at ", records.live.at(node).record.address(),
                                ": stop it before it is removed");
    }
    RequireRevision(txn, Key(NodeKey(node)), found.mod_revision);
    RequireRevision(txn, Key(LiveKey(node)), 0);
    AddDelete(txn, Key(NodeKey(node)));
    tried = true;
    return OkStatus();
  });
}

StatusOr<ClusterSettings> ClusterAdmin::Change(const SettingsChange& change) {
  ClusterSettings result;
  QUIRE_RETURN_IF_ERROR(
      Commit([&](const ClusterRecords& records, etcdserverpb::TxnRequest& txn) -> Status {
        v1::ClusterSettings settings = records.settings.record;
        if (change.replicas) settings.set_replicas(*change.replicas);
        if (change.max_clock_skew_millis) {
          settings.set_max_clock_skew_millis(*change.max_clock_skew_millis);
        }
        if (change.min_replicas) settings.set_min_replicas(*change.min_replicas);
        if (change.copy_bytes_per_second) {
          settings.set_copy_bytes_per_second(*change.copy_bytes_per_second);
        }
        if (change.hot_reads_per_second) {
          settings.set_hot_reads_per_second(*change.hot_reads_per_second);
        }
        if (change.hot_replicas) settings.set_hot_replicas(*change.hot_replicas);
        if (change.hot_keep_seconds) settings.set_hot_keep_seconds(*change.hot_keep_seconds);
        QUIRE_ASSIGN_OR_RETURN(result, FromProto(settings));
        RequireRevision(txn, Key(std::string(kSettingsKey)), records.settings.mod_revision);
        AddPut(txn, Key(std::string(kSettingsKey)), ToJsonText(settings));
        return OkStatus();
      }));
  return result;
}

}  // namespace quire::cluster
