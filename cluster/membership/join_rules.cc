// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/join_rules.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cluster/etcd/etcd_requests.h"

namespace quire::cluster {
namespace {

/// The disk against the flags.
Status CheckDisk(const Joiner& joiner) {
  const v1::NodeIdentity& disk = joiner.identity;
  if (disk.cluster_name() != joiner.cluster_name) {
    return FailedPrecondition("the data directory belongs to cluster ", disk.cluster_name(),
                              ", not to ", joiner.cluster_name,
                              ": name that cluster, or use another data directory");
  }
  if (disk.node_name() != joiner.self.name) {
    return FailedPrecondition("the data directory belongs to node ", disk.node_name(), ", not to ",
                              joiner.self.name, ": start it as --node ", disk.node_name(),
                              ", or use another data directory");
  }
  return OkStatus();
}

/// The disk against the cluster that etcd has.
Status CheckCluster(const Joiner& joiner, const ClusterRecords& records) {
  const std::string& disk_id = joiner.identity.cluster_id();
  if (!records.cluster) {
    if (disk_id.empty()) return OkStatus();
    return FailedPrecondition("etcd knows no cluster ", joiner.cluster_name,
                              ", to which the data directory belongs: etcd has lost its data, or "
                              "is another one; restore its backup or correct --etcd. To begin a "
                              "new cluster, empty the data directory of every node");
  }
  const v1::ClusterRecord& cluster = records.cluster->record;
  if (!disk_id.empty() && disk_id != cluster.cluster_id()) {
    return FailedPrecondition(
        "the data directory belongs to another cluster named ", joiner.cluster_name, " (", disk_id,
        "); etcd has ", cluster.cluster_id(), ": correct --etcd, or use another data directory");
  }
  if (joiner.self.protocol < cluster.min_protocol()) {
    return FailedPrecondition("this program speaks protocol ", joiner.self.protocol,
                              " and the cluster needs ", cluster.min_protocol(),
                              ": upgrade the program");
  }
  return OkStatus();
}

/// The program against those of the nodes that are up.
Status CheckProtocols(const Joiner& joiner, const ClusterRecords& records) {
  for (const auto& [name, live] : records.live) {
    const auto other = FromProto(live.record);
    if (!other.ok() || name == joiner.self.name || Understand(joiner.self, *other)) continue;
    const bool is_older = joiner.self.protocol < other->oldest_protocol;
    return FailedPrecondition("this program speaks ", ProtocolsOf(joiner.self), ", and node ", name,
                              " at ", other->address, " speaks ", ProtocolsOf(*other), ": upgrade ",
                              is_older ? "this program" : "that node first",
                              ", one release after the other");
  }
  return OkStatus();
}

/// The name against the node that has it.
Status CheckName(const Joiner& joiner, const ClusterRecords& records) {
  const std::string& name = joiner.self.name;
  const auto node = records.nodes.find(name);
  if (node == records.nodes.end()) {
    if (joiner.identity.cluster_id().empty()) return OkStatus();
    // A restored backup does not know nodes that joined after it.
    if (HasLost(records.cluster->record, joiner.identity.joined_revision())) return OkStatus();
    return FailedPrecondition("node ", name, " was removed from the cluster, and its data ",
                              "directory is out of date: empty it to join as a new node");
  }
  if (node->second.record.node_id() == joiner.self.node_id) return OkStatus();
  const auto live = records.live.find(name);
  if (live != records.live.end()) {
    return AlreadyExists("another node named ", name, " is up at ", live->second.record.address(),
                         ": give this one another --node");
  }
  return FailedPrecondition("the name ", name, " belongs to another disk, last at ",
                            node->second.record.last().address(),
                            ": start with that data directory, give another --node, or give the "
                            "disk up with `quire cluster remove ",
                            name, "`");
}

/// 0: it is not there.
int64_t RevisionOf(const auto& records, const std::string& name) {
  const auto found = records.find(name);
  return found == records.end() ? 0 : found->second.mod_revision;
}

}  // namespace

StatusOr<JoinStep> CheckJoin(const Joiner& joiner, const ClusterRecords& records) {
  QUIRE_RETURN_IF_ERROR(CheckDisk(joiner));
  QUIRE_RETURN_IF_ERROR(CheckCluster(joiner, records));
  QUIRE_RETURN_IF_ERROR(CheckProtocols(joiner, records));
  QUIRE_RETURN_IF_ERROR(CheckName(joiner, records));
  const auto live = records.live.find(joiner.self.name);
  if (live == records.live.end()) return JoinStep::kEnter;
  if (live->second.record.incarnation() == joiner.self.incarnation) return JoinStep::kEnter;
  // A process listens on an address alone. One that is only advertised proves nothing.
  const bool is_former =
      joiner.listens_on_address && live->second.record.address() == joiner.self.address;
  return is_former ? JoinStep::kEnter : JoinStep::kWait;
}

etcdserverpb::TxnRequest JoinTxn(const Joiner& joiner, const ClusterRecords& records,
                                 const v1::ClusterRecord& founding, int64_t lease) {
  const std::string prefix = ClusterPrefix(joiner.cluster_name);
  const std::string& name = joiner.self.name;
  const std::string cluster_key = prefix + std::string(kClusterKey);
  const std::string node_key = prefix + NodeKey(name), live_key = prefix + LiveKey(name);
  v1::ClusterMember self = ToProto(joiner.self);
  self.clear_state();  // The records tell.
  v1::NodeRecord node;
  if (const auto known = records.nodes.find(name); known != records.nodes.end()) {
    node.set_draining(known->second.record.draining());
  }
  node.set_node_id(joiner.self.node_id);
  *node.mutable_last() = self;

  etcdserverpb::TxnRequest txn;
  RequireRevision(txn, cluster_key, records.cluster ? records.cluster->mod_revision : 0);
  RequireRevision(txn, node_key, RevisionOf(records.nodes, name));
  RequireRevision(txn, live_key, RevisionOf(records.live, name));
  if (!records.cluster) AddPut(txn, cluster_key, ToJsonText(founding));
  AddPut(txn, node_key, ToJsonText(node));
  AddPut(txn, live_key, ToJsonText(self), lease);
  return txn;
}

Status CheckClock(std::span<const int64_t> offsets_micros, Duration limit) {
  if (offsets_micros.empty()) return OkStatus();
  std::vector<int64_t> sorted(offsets_micros.begin(), offsets_micros.end());
  std::ranges::sort(sorted);
  const int64_t median = sorted[(sorted.size() - 1) / 2];
  if (std::chrono::microseconds(std::abs(median)) <= limit) return OkStatus();
  return FailedPrecondition(
      "this machine's clock is ", std::abs(median) / 1000, " ms ",
      median > 0 ? "ahead of" : "behind", " the cluster's, and ",
      std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(),
      " ms are allowed: synchronise it (NTP), since documents expire by the clock");
}

}  // namespace quire::cluster
