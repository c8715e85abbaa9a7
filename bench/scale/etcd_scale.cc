// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/etcd_scale.h"

#include <string>

#include "cluster/directory/directory_records.h"
#include "cluster/membership/cluster_records.h"
#include "cluster/view/view_proto.h"
#include "common/documents/agreed_changes.h"

namespace quire::scale {
namespace {

using cluster::ClusterView;
using cluster::Member;

constexpr double kSecondsPerDay = 86'400;
/// Renewals in the time of a lease (cluster/membership/etcd_member.cc).
constexpr double kRenewalsPerLeaseTime = 3;
/// Transactions and events of a registration: its version is reserved, then published.
constexpr double kChangesPerRegistration = 2;

/// Bytes of the records of a node, keys included.
struct NodeRecords {
  uint64_t node = 0;
  uint64_t live = 0;
};

NodeRecords RecordsOf(const ClusterView& view, const Member& member) {
  v1::ClusterMember self = cluster::ToProto(member);
  self.clear_state();
  v1::NodeRecord node;
  node.set_node_id(member.node_id);
  *node.mutable_last() = self;
  const size_t prefix = cluster::ClusterPrefix(view.name).size();
  return {.node = prefix + cluster::NodeKey(member.name).size() + cluster::ToJsonText(node).size(),
          .live = prefix + cluster::LiveKey(member.name).size() + cluster::ToJsonText(self).size()};
}

/// Bytes of the entry of a name with one version, and of its key.
uint64_t EntryBytes(const ClusterView& view, const Document& document) {
  const auto agreed = WithPublished({}, document, false);
  const auto record = agreed.ok() ? cluster::DirectoryRecord(*agreed) : agreed.status();
  return cluster::DocumentsPrefix(view.name).size() +
         cluster::DirectoryKeyText("default", document.name).size() +
         (record.ok() ? record->size() : 0);
}

/// Bytes that a node hears of a restart: the record of its lease goes, then both are put.
double RestartBytes(const ClusterView& view) {
  const NodeRecords records = RecordsOf(view, view.members[0]);
  return static_cast<double>(records.node + 2 * records.live);
}

void AddRates(const ScaleOptions& options, const ClusterView& view, EtcdScale* scale) {
  const double restarts_per_second = options.restarts_per_day * options.nodes / kSecondsPerDay;
  const double changes_per_second = options.registrations_per_second * kChangesPerRegistration;
  scale->renewals_per_second = options.nodes * kRenewalsPerLeaseTime / options.lease_seconds;
  // A restart is a leave and a join.
  scale->transactions_per_second = changes_per_second + 2 * restarts_per_second;
  scale->events_per_second = (changes_per_second + 3 * restarts_per_second) * options.nodes;
  scale->event_bytes_per_node =
      changes_per_second * scale->bytes_per_document + restarts_per_second * RestartBytes(view);
  scale->event_bytes_per_second = scale->event_bytes_per_node * options.nodes;
}

}  // namespace

EtcdScale MeasureEtcd(const ScaleOptions& options) {
  const ClusterView view = ViewOfNodes(options, 0, options.nodes);
  EtcdScale scale;
  uint64_t node_bytes = 0;
  for (const Member& member : view.members) {
    const NodeRecords records = RecordsOf(view, member);
    node_bytes += records.node + records.live;
  }
  scale.bytes_per_node = static_cast<double>(node_bytes) / options.nodes;
  scale.bytes_per_document = static_cast<double>(EntryBytes(view, DocumentOf(options, 0)));
  // Cluster, settings and one tenant are three keys more.
  scale.keys = 3 + 2 * uint64_t{options.nodes} + options.documents();
  scale.bytes = node_bytes + static_cast<uint64_t>(scale.bytes_per_document *
                                                   static_cast<double>(options.documents()));
  AddRates(options, view, &scale);
  return scale;
}

}  // namespace quire::scale
