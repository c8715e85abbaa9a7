// SPDX-License-Identifier: Apache-2.0
//
// ClusterNode: a daemon's part in a cluster. It follows the members from its start on, joins once
// the daemon listens, and leaves when it stops. With a file of members there is nothing to join.
//
// Thread-safety: Join and Leave belong to one thread; all else may be called concurrently.
// Ownership: the board outlives the node, and the node the server that uses its place.
#ifndef QUIRE_APPS_QUIRED_CLUSTER_NODE_H_
#define QUIRE_APPS_QUIRED_CLUSTER_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/directory/etcd_collections.h"
#include "cluster/directory/etcd_directory.h"
#include "cluster/etcd/etcd_client.h"
#include "cluster/hot/etcd_hot_documents.h"
#include "cluster/membership/etcd_member.h"
#include "cluster/membership/membership.h"
#include "cluster/replica/peer_calls.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/service/cluster_place.h"
#include "quire/bearer_token.h"
#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::kvserver {

struct ClusterOptions {
  std::string cluster;            ///< Empty: the server is in none.
  std::vector<std::string> etcd;  ///< Endpoints; empty with `members`.
  std::string members;            ///< File of a StaticMembership; empty with `etcd`.
  std::string node;               ///< Empty: the host's name.
  std::string zone;               ///< Empty: the node is a zone by itself.
  std::string advertise;          ///< Address for others; empty: the one that is listened on.
  uint32_t weight = 0;            ///< 0: GiB of disk that the data may take.
  std::string secret_file;        ///< File with what proves every tenant between nodes.
  uint32_t lease_seconds = 10;    ///< The node counts as lost after this time without a word.
};

/// Adds a flag for each option.
void AddClusterFlags(CLI::App* app, ClusterOptions* options);

class ClusterNode {
 public:
  /// How a node calls others. Without a tenant it does not, so that it keeps no replicas.
  struct Caller {
    std::string tenant;
    BearerToken token = {};  ///< Proves every tenant to nodes that ask for it.
  };
  /// Null when the options name no cluster. The board says `not_a_member` until Join is done.
  /// INVALID_ARGUMENT naming the option that is wrong or needs another one.
  static StatusOr<std::unique_ptr<ClusterNode>> Start(const ClusterOptions& options, Caller caller,
                                                      Health* health);
  ~ClusterNode();

  /// Checks, before the node's store is opened, that its data directory belongs to the cluster. OK
  /// while etcd is away: Join checks again. Errors: those of EtcdMember::CheckMayJoin.
  Status CheckMayJoin(const std::string& data_dir) const;
  ClusterPlace place() const;
  const cluster::Membership& membership() const { return *membership_; }

  /// Description that a node gives of itself when it joins.
  struct Facts {
    std::string data_dir;
    std::string listen;  ///< Address that is listened on.
    uint64_t dram_bytes = 0;
    uint64_t ssd_bytes = 0;  ///< 0: unlimited.
  };
  /// Joins the cluster. Errors: those of EtcdMember::Join; INVALID_ARGUMENT when others could not
  /// reach the address. `is_stopping` ends the waits, and is asked as long as the node is a member.
  Status Join(const Facts& facts, std::function<bool()> is_stopping = {}) QUIRE_EXCLUDES(mutex_);
  /// Leaves the cluster, so that clients go elsewhere.
  void Leave() QUIRE_EXCLUDES(mutex_);

  void VisitMetrics(MetricsVisitor& visit) const QUIRE_EXCLUDES(mutex_);

 private:
  ClusterNode(ClusterOptions options, Caller caller, Health* health);
  Status Follow();
  /// Has names and settings come from this cluster only; empty: from the first that is seen.
  void BindTo(const std::string& cluster_id) const;
  /// Takes up names and settings after a restore of etcd. As EraCell::Follow.
  Status FollowEra() const;
  Status Standing() const QUIRE_EXCLUDES(mutex_);
  StatusOr<cluster::Member> Describe(const Facts& facts) const;
  /// Checks that a file of members lists this node.
  Status CheckListed() const;

  ClusterOptions options_;
  const Caller caller_;
  Health& health_;
  std::unique_ptr<cluster::EtcdClient> etcd_;  ///< Null with a file of members.
  std::unique_ptr<cluster::EtcdDirectory> directory_;
  std::unique_ptr<cluster::PeerCalls> peers_;  ///< Null when other nodes would refuse its calls.
  std::unique_ptr<cluster::EtcdCollections> collections_;
  std::unique_ptr<cluster::EtcdHotDocuments> hot_;
  std::unique_ptr<cluster::Membership> membership_;
  mutable Mutex mutex_;
  /// Null before Join, and with a file.
  std::unique_ptr<cluster::EtcdMember> member_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_CLUSTER_NODE_H_
