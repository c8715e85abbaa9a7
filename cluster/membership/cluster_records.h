// SPDX-License-Identifier: Apache-2.0
//
// ClusterRecords: what etcd holds of a cluster, parsed, and its conversion to a view. Keys are
// under /quire/NAME/. Values are JSON, for operators who look with etcdctl; fields that are not
// known are ignored, so that nodes of two versions work together. Pure functions. Errors: DATA_LOSS
// naming the key whose value cannot be read.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_CLUSTER_RECORDS_H_
#define QUIRE_CLUSTER_MEMBERSHIP_CLUSTER_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/etcd/etcd_mirror.h"
#include "cluster/view/cluster_view.h"
#include "cluster/view/view_proto.h"
#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

inline constexpr std::string_view kClusterKey = "cluster";
inline constexpr std::string_view kSettingsKey = "settings";

/// Prefix of the keys of all clusters.
inline constexpr std::string_view kAllClusters = "/quire/";
/// "/quire/NAME/".
[[nodiscard]] std::string ClusterPrefix(std::string_view cluster_name);
/// Keys behind the prefix.
[[nodiscard]] std::string NodeKey(std::string_view node);
[[nodiscard]] std::string LiveKey(std::string_view node);
[[nodiscard]] std::string HotKey(uint64_t placement_hash);

/// A record with the revision of its last change.
template <typename Record>
struct Revised {
  Record record;
  int64_t mod_revision = 0;  ///< 0: the key is not there.
};

struct ClusterRecords {
  std::optional<Revised<v1::ClusterRecord>> cluster = {};
  Revised<v1::ClusterSettings> settings = {};
  std::map<std::string, Revised<v1::NodeRecord>> nodes = {};
  std::map<std::string, Revised<v1::ClusterMember>> live = {};
  std::map<std::string, Revised<v1::HotDocument>> hot = {};  ///< By the hashes in their keys.
  int64_t revision = 0;
};

[[nodiscard]] StatusOr<ClusterRecords> ParseRecords(const EtcdSnapshot& snapshot);

/// Added to etcd's revisions to make those that nodes know; 0 before the first restore of a backup.
[[nodiscard]] uint64_t RevisionBase(const v1::ClusterRecord& cluster);
/// True when a restore lost the changes of `revision`, which a node knows.
[[nodiscard]] bool HasLost(const v1::ClusterRecord& cluster, uint64_t revision);

/// The view's epoch is the records' revision as nodes know it.
[[nodiscard]] ClusterView ViewOf(std::string_view cluster_name, const ClusterRecords& records);

/// One line of JSON.
[[nodiscard]] std::string ToJsonText(const google::protobuf::Message& message);
/// `name` begins the error, INVALID_ARGUMENT.
[[nodiscard]] Status FromJsonText(std::string_view name, std::string_view text,
                                  google::protobuf::Message* message);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_CLUSTER_RECORDS_H_
