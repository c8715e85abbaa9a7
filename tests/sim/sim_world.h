// SPDX-License-Identifier: Apache-2.0
//
// SimWorld: all that a run has in common: time, network, etcd, nodes, and what clients were told.
// Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_WORLD_H_
#define QUIRE_TESTS_SIM_SIM_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_scenario.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

struct SimWorld {
  SimWorld(const SimScenario& its_scenario, uint64_t seed);

  /// Adds a node and starts it.
  SimNode& AddNode();
  /// A node by chance.
  SimNode& AnyNode();
  /// A time around `seconds`, by chance.
  Duration About(double seconds);
  /// Faults and clients go on.
  bool GoesOn() const { return scheduler.Now() < end; }

  const SimScenario scenario;
  SimScheduler scheduler;
  SimNetwork network{&scheduler};
  SimEtcd etcd{.scheduler = scheduler, .network = network};
  SimHistory history;
  std::vector<std::unique_ptr<SimNode>> nodes;
  std::map<SegmentKey, uint64_t> contents;  ///< By the tips of their chains.
  uint64_t num_faults = 0;
  uint64_t num_read_at_extra = 0;  ///< Reads that an extra owner of a hot document answered.
  uint32_t num_busy = 0;           ///< Clients and kinds of faults that have not ended.
  TimePoint end{};                 ///< End of clients and faults.
};

/// Runs one client until the end, as a task.
void RunSimClient(SimWorld* world, uint32_t number);
/// Runs one client that reads the same document all the time, likewise.
void RunSimHotReader(SimWorld* world, uint32_t number);
/// Runs the faults of one kind until the end, as a task. Leaves nothing broken.
void RunSimFault(SimWorld* world, const SimFault& fault);

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_WORLD_H_
