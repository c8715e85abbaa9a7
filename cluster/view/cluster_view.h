// SPDX-License-Identifier: Apache-2.0
//
// ClusterView: the members of a cluster and its settings at one moment. Clients and servers compute
// the same placement from the same view. Value types.
#ifndef QUIRE_CLUSTER_VIEW_CLUSTER_VIEW_H_
#define QUIRE_CLUSTER_VIEW_CLUSTER_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::cluster {

/// Newest protocol between nodes and with clients that this build speaks, and the oldest one. A
/// release speaks that of the release before, so that nodes can be upgraded one after another.
/// 1: replicas. 2: revisions go on after a restore of a backup.
inline constexpr uint32_t kClusterProtocol = 2;
inline constexpr uint32_t kOldestClusterProtocol = 1;
/// Oldest protocol of nodes in a cluster that was restored from a backup.
inline constexpr uint32_t kRestoredClusterProtocol = 2;
/// Largest weight. Placement multiplies weights by logarithms in 64 bits.
inline constexpr uint32_t kMaxMemberWeight = uint32_t{1} << 24;
/// Most replicas of a run, and most that a hot one gets besides.
inline constexpr uint32_t kMaxReplicas = 8;
/// Most hot documents of a cluster.
inline constexpr size_t kMaxHotDocuments = 256;
/// Range of ClusterSettings::hot_keep_seconds.
inline constexpr uint32_t kMinHotKeepSeconds = 2, kMaxHotKeepSeconds = 86400;

enum class MemberState : uint8_t {
  kUp,        ///< Serves, and takes new runs.
  kDraining,  ///< Serves what it has, and takes no new runs.
  kLeft,      ///< Was stopped, and is expected back with its disk.
  kLost,      ///< Its lease ended without a word.
};

/// "up", "draining", "left", "lost".
std::string_view Name(MemberState state);

struct Member {
  std::string name;     ///< Unique in the cluster; chosen by the operator.
  std::string node_id;  ///< Names the disk; made at its first join.
  MemberState state = MemberState::kUp;
  std::string zone = {};     ///< Failure domain. Empty: the node is one by itself.
  uint32_t weight = 1;       ///< Share of the runs; 1..kMaxMemberWeight.
  std::string address = {};  ///< Address for clients (NetAddress::ParseServer).
  uint32_t protocol = kClusterProtocol;
  uint32_t oldest_protocol = kOldestClusterProtocol;  ///< At most `protocol`.
  std::string version = {};                           ///< Version of the program.
  uint64_t incarnation = 0;                           ///< Differs at each start of the node.
  uint64_t dram_bytes = 0;
  uint64_t ssd_bytes = 0;

  bool TakesNewRuns() const { return state == MemberState::kUp; }
  bool Serves() const { return state == MemberState::kUp || state == MemberState::kDraining; }
  friend bool operator==(const Member&, const Member&) = default;
};

/// True when two nodes have a protocol in common.
[[nodiscard]] bool Understand(const Member& one, const Member& other);
/// "protocol 2" or "protocols 1 to 2", for messages.
[[nodiscard]] std::string ProtocolsOf(const Member& member);

struct ClusterSettings {
  uint32_t replicas = 1;                  ///< 1..kMaxReplicas
  uint32_t max_clock_skew_millis = 5000;  ///< Largest difference of clocks at a join.
  /// Copies that a put at durability `replicated` needs; at most `replicas` count.
  uint32_t min_replicas = 1;
  /// Limit of a node's copies from others, besides those of puts; 0 for none.
  uint64_t copy_bytes_per_second = uint64_t{64} << 20;
  /// Reads of a document by one node in a second above which it is hot; 0: none ever is.
  uint32_t hot_reads_per_second = 1000;
  uint32_t hot_replicas = 2;       ///< Most copies of a hot document besides `replicas`.
  uint32_t hot_keep_seconds = 60;  ///< Time that these stay after it has cooled.
  friend bool operator==(const ClusterSettings&, const ClusterSettings&) = default;
};

/// A document that more nodes than its owners keep, because it is read much.
struct HotDocument {
  std::string tenant;
  std::string collection;
  std::string document;
  uint32_t extra_replicas = 1;
  uint64_t placement_hash = 0;  ///< Hash of its PlacementKey.
  int64_t lease = 0;            ///< etcd's, under which nodes keep it hot; 0 in a client's view.
  int64_t revision = 0;         ///< etcd's, of its last change; 0 in a client's view.
  friend bool operator==(const HotDocument&, const HotDocument&) = default;
};

struct ClusterView {
  std::string name;
  std::string id;      ///< Made when the cluster was founded. Empty before.
  uint64_t epoch = 0;  ///< Every change up to this revision is in the view.
  ClusterSettings settings = {};
  std::vector<Member> members = {};             ///< Sorted by name.
  std::vector<HotDocument> hot_documents = {};  ///< Sorted by placement_hash; each once.

  /// Null when there is none.
  const Member* Find(std::string_view member) const;
  /// Null when the documents of this hash are not hot.
  const HotDocument* FindHot(uint64_t placement_hash) const;
  friend bool operator==(const ClusterView&, const ClusterView&) = default;
};

/// Checks a name of a cluster, node or zone: 1..64 characters of [a-z0-9._-], beginning with a
/// letter or digit. `what` begins the error, INVALID_ARGUMENT.
[[nodiscard]] Status CheckClusterName(std::string_view what, std::string_view name);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_VIEW_CLUSTER_VIEW_H_
