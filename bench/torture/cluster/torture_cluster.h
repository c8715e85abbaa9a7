// SPDX-License-Identifier: Apache-2.0
//
// TortureCluster: etcd and servers of one cluster as processes on loopback, and the faults that are
// made to them. Clients and other servers reach a server through a proxy, and each server reaches
// etcd through one of its own. A server in a partition still reaches the other servers. The
// destructor kills every process. Thread-safety: none, but addresses() may be used by any thread.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_TORTURE_CLUSTER_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_TORTURE_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/child.h"
#include "bench/torture/cluster/fault_schedule.h"
#include "bench/torture/cluster/tcp_proxy.h"
#include "cluster/etcd/etcd_client.h"
#include "cluster/membership/cluster_admin.h"
#include "quire/status.h"

namespace quire::torture {

struct TortureClusterOptions {
  std::string directory;  ///< Exists. Disks and logs of the processes go there.
  std::string server;     ///< Path of quired.
  uint32_t nodes = 3;
  uint32_t replicas = 2;
};

class TortureCluster {
 public:
  /// Starts all, and returns once every server knows the others and the number of replicas.
  /// UNAVAILABLE when a program does not start.
  static StatusOr<std::unique_ptr<TortureCluster>> Start(const TortureClusterOptions& options);
  ~TortureCluster();

  /// Those of the proxies before the servers.
  std::vector<std::string> addresses() const;
  /// A fault starts, and ends later. Another one may start then.
  [[nodiscard]] Status Begin(const ScheduledFault& fault);
  [[nodiscard]] Status End(const ScheduledFault& fault);
  /// Waits until every server that is left is a member and knows it.
  [[nodiscard]] Status AwaitWhole();
  /// Kills the server, removes its disk, and has the cluster forget it.
  [[nodiscard]] Status LoseDisk(uint32_t node);

 private:
  struct Node {
    std::string name;
    std::unique_ptr<TcpProxy> front;  ///< Leads clients and other servers to it.
    std::unique_ptr<TcpProxy> etcd;   ///< Leads it to etcd.
    std::unique_ptr<Child> process;   ///< Null after LoseDisk.
  };

  explicit TortureCluster(TortureClusterOptions options) : options_(std::move(options)) {}
  Status StartEtcd();
  Status StartNode(Node* node);
  StatusOr<std::unique_ptr<Child>> Run(const std::string& log, std::vector<std::string> command);
  /// True when every server that is left says that all of them are up.
  bool IsWhole();
  static Status KillChild(Child* child);

  const TortureClusterOptions options_;
  uint16_t etcd_port_ = 0;
  uint16_t etcd_peer_port_ = 0;
  std::unique_ptr<Child> etcd_;
  std::vector<Node> nodes_;
  std::unique_ptr<cluster::EtcdClient> client_;
  std::unique_ptr<cluster::ClusterAdmin> admin_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_TORTURE_CLUSTER_H_
