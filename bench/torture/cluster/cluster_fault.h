// SPDX-License-Identifier: Apache-2.0
//
// ClusterFault: what can go wrong with a node of a cluster, with its network and with etcd.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_FAULT_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_FAULT_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quire::torture {

enum class ClusterFault : uint8_t {
  kKill,         ///< SIGKILL; the node starts again with its disk.
  kStop,         ///< SIGSTOP; the node goes on later.
  kPartition,    ///< Nothing reaches the node. On loopback it still reaches other nodes.
  kEtcdCut,      ///< Node and etcd do not reach each other.
  kPeersCut,     ///< Node and other nodes do not reach each other; clients and etcd do.
  kOneWay,       ///< Packets from the node to etcd and other nodes are lost; theirs are not.
  kCut,          ///< Connections to the node are closed as soon as they are made.
  kDelay,        ///< Bytes to and from the node come late.
  kLoss,         ///< Packets to and from the node are lost, and sent again.
  kThrottle,     ///< Few bytes a second go to and from the node.
  kEtcdLeader,   ///< SIGKILL of etcd's leader; it starts again with its data.
  kEtcdRestart,  ///< SIGKILL of every member of etcd; they start again with their data.
  kDiskFull,     ///< The node's disk has no space left.
  kDiskError,    ///< Every access to the node's disk fails, and what was not synced is lost.
  kDiskDamage,   ///< The node is killed, bits on its disk flip, and it starts again.
};
inline constexpr int kNumClusterFaults = 15;

/// Network of a cluster's processes.
enum class ClusterNetwork : uint8_t {
  kLoopback,    ///< All on loopback, with proxies between.
  kNamespaces,  ///< Each in a network namespace of its own, on one switch.
};

/// Name in reports and on the command line.
std::string_view Name(ClusterFault fault);
std::string_view Name(ClusterNetwork network);
/// nullopt for a name of no fault.
std::optional<ClusterFault> FaultNamed(std::string_view name);

/// Faults that can be made there, in the order of the enumeration.
std::vector<ClusterFault> FaultsOn(ClusterNetwork network);
/// True for a fault that may take data from a node's disk for good.
bool HarmsDisk(ClusterFault fault);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_FAULT_H_
