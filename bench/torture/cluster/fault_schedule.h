// SPDX-License-Identifier: Apache-2.0
//
// Schedule of the faults that a torture of a cluster makes. It follows from the seed. Faults take
// turns, one at a time. Every kind comes once before any comes again.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_FAULT_SCHEDULE_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_FAULT_SCHEDULE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "quire/clock.h"

namespace quire::torture {

enum class ClusterFault : uint8_t {
  kKill,       ///< SIGKILL; the node starts again with its disk.
  kStop,       ///< SIGSTOP; the node goes on later.
  kPartition,  ///< Nothing reaches the node, and the node does not reach etcd.
  kCut,        ///< Connections to the node are closed as soon as they are made.
  kDelay,      ///< Bytes to and from the node come late.
  kThrottle,   ///< Few bytes a second go to and from the node.
  kEtcd,       ///< SIGKILL of etcd; it starts again with its data.
};
inline constexpr int kNumClusterFaults = 7;

/// Name of a kind in reports.
std::string_view Name(ClusterFault fault);

struct ScheduledFault {
  ClusterFault kind = ClusterFault::kKill;
  uint32_t node = 0;
  Duration start = {};  ///< Since the start of the run.
  Duration length = {};
  friend bool operator==(const ScheduledFault&, const ScheduledFault&) = default;
};

/// Faults of a run of this length on `nodes` nodes, in order of time. All end within the run.
std::vector<ScheduledFault> ScheduleFaults(uint64_t seed, Duration run, uint32_t nodes);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_FAULT_SCHEDULE_H_
