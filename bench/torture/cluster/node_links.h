// SPDX-License-Identifier: Apache-2.0
//
// NodeLinks: how a node is connected, and what goes wrong with that. Clients and other nodes reach
// it through a proxy on its host. On loopback it reaches etcd through proxies, too; on a network of
// namespaces it does so directly. Thread-safety: none, but address() may be used by any thread.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_NODE_LINKS_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_NODE_LINKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/torture/cluster/cluster_fault.h"
#include "bench/torture/network/bridged_network.h"
#include "bench/torture/network/tcp_proxy.h"
#include "quire/status.h"

namespace quire::torture {

class NodeLinks {
 public:
  struct Options {
    const BridgedNetwork* network = nullptr;  ///< Outlives this; null on loopback.
    uint32_t host = 0;                        ///< The node's number in the network.
    std::vector<uint32_t> peers;              ///< Hosts of the other nodes.
    std::vector<uint32_t> etcd_hosts;
    std::vector<std::string> etcd;  ///< "host:port" of each member.
    uint64_t seed = 1;
  };
  /// UNAVAILABLE when the system has no port.
  static StatusOr<std::unique_ptr<NodeLinks>> Make(Options options);

  /// Address of the node for clients and other nodes.
  std::string address() const { return front_->address(); }
  /// "host:port" at which the node reaches each member of etcd.
  std::vector<std::string> etcd() const;
  /// The node listens on this port of its loopback. Connections made before are closed.
  void SetTarget(uint16_t port) { front_->SetTarget(port); }

  /// A fault of the network begins, and ends later. Others are left to the caller.
  [[nodiscard]] Status Begin(ClusterFault fault);
  [[nodiscard]] Status End(ClusterFault fault);

 private:
  enum class Way : uint8_t { kOut, kBoth };

  explicit NodeLinks(Options options) : options_(std::move(options)) {}
  Status MakeProxies();
  Status BeginHere(ClusterFault fault);
  Status BeginInKernel(ClusterFault fault);
  Status EndInKernel(ClusterFault fault);
  void SetEtcdWeather(const Weather& weather);
  /// Loses packets between the node and others, or delivers them again.
  Status Change(bool loses, const std::vector<uint32_t>& others, Way way) const;

  const Options options_;
  std::unique_ptr<TcpProxy> front_;
  std::vector<std::unique_ptr<TcpProxy>> etcd_;  ///< None on a network of namespaces.
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_NODE_LINKS_H_
