// SPDX-License-Identifier: Apache-2.0
//
// Schedule of the faults that a torture of a cluster makes. It follows from the seed. Faults take
// turns, one at a time. Every kind comes once before any comes again.
//
// One node of a run has the bad disk: with two copies of each document, two disks may not harm
// their copies of one.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_FAULT_SCHEDULE_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_FAULT_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "bench/torture/cluster/cluster_fault.h"
#include "quire/clock.h"

namespace quire::torture {

struct ScheduledFault {
  ClusterFault kind = ClusterFault::kKill;
  uint32_t node = 0;
  Duration start = {};  ///< Since the start of the run.
  Duration length = {};
  friend bool operator==(const ScheduledFault&, const ScheduledFault&) = default;
};

struct SchedulePlan {
  uint64_t seed = 1;
  Duration run = {};
  uint32_t nodes = 3;
  std::vector<ClusterFault> kinds;  ///< At least one, each once.
};

/// Faults of a run, in order of time. All end within the run.
std::vector<ScheduledFault> ScheduleFaults(const SchedulePlan& plan);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_FAULT_SCHEDULE_H_
