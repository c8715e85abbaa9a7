// SPDX-License-Identifier: Apache-2.0
//
// TortureCluster: etcd and servers of one cluster as processes, and the faults that are made to
// them. All run on loopback, or each on a host of its own. The destructor kills every process.
// Thread-safety: none, but addresses() may be used by any thread.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_TORTURE_CLUSTER_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_TORTURE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/child.h"
#include "bench/torture/cluster/cluster_fault.h"
#include "bench/torture/cluster/etcd_group.h"
#include "bench/torture/cluster/fault_schedule.h"
#include "bench/torture/cluster/node_disk.h"
#include "bench/torture/cluster/node_links.h"
#include "bench/torture/network/bridged_network.h"
#include "cluster/membership/cluster_admin.h"
#include "common/base/random.h"
#include "quire/status.h"

namespace quire::torture {

inline constexpr uint32_t kEtcdMembers = 3;

struct TortureClusterOptions {
  std::string directory;  ///< Exists. Disks and logs of the processes go there.
  std::string server;     ///< Path of quired.
  uint32_t nodes = 3;
  uint32_t replicas = 2;
  /// Namespaces need a private system (private_system.h).
  ClusterNetwork network = ClusterNetwork::kLoopback;
  uint64_t seed = 1;
};

class TortureCluster {
 public:
  /// Starts all, and returns once every server knows the others and the number of replicas.
  /// UNAVAILABLE when a program does not start.
  static StatusOr<std::unique_ptr<TortureCluster>> Start(const TortureClusterOptions& options);
  ~TortureCluster();

  /// Addresses of the servers for clients.
  std::vector<std::string> addresses() const;
  /// A fault starts, and ends later. Another one may start then.
  [[nodiscard]] Status Begin(const ScheduledFault& fault);
  [[nodiscard]] Status End(const ScheduledFault& fault);
  /// Waits until every server that is left is a member and knows it.
  [[nodiscard]] Status AwaitWhole();
  /// Kills the server, removes its disk, and has the cluster forget it.
  [[nodiscard]] Status LoseDisk(uint32_t node);
  /// Bits of payload that flipped on disks.
  uint64_t flipped_bits() const { return flipped_bits_; }

 private:
  struct Node {
    std::string name;
    uint32_t host = 0;
    std::unique_ptr<NodeDisk> disk;
    std::unique_ptr<NodeLinks> links;
    std::unique_ptr<Child> process;  ///< Null after LoseDisk.
  };

  explicit TortureCluster(const TortureClusterOptions& options)
      : options_(options), random_(options.seed) {}
  Status MakeNetwork();
  Status StartEtcd();
  Status MakeNode(uint32_t number);
  Status StartNode(Node* node);
  Status AwaitJoined();
  std::vector<std::string> CommandOf(const Node& node) const;
  /// Starts a command on a host, with its messages in a file of this name.
  StatusOr<std::unique_ptr<Child>> Launch(uint32_t host, const std::string& log,
                                          const std::vector<std::string>& command);
  Status DamageDisk(const Node& node);
  /// True when every server that is left says that all of them are up.
  bool IsWhole();
  static Status KillChild(Child* child);

  const TortureClusterOptions options_;
  SeededRandom random_;
  uint64_t flipped_bits_ = 0;
  std::unique_ptr<BridgedNetwork> network_;  ///< Null on loopback.
  std::unique_ptr<EtcdGroup> etcd_;
  std::vector<Node> nodes_;
  std::unique_ptr<cluster::ClusterAdmin> admin_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_TORTURE_CLUSTER_H_
