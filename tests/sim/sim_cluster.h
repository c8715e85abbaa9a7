// SPDX-License-Identifier: Apache-2.0
//
// SimCluster: one run of a scenario with one seed. Clients put, read, change and delete documents
// while faults come. Then all faults end, the cluster settles, and every promise is checked. The
// same scenario and seed give the same run. Thread-safety: none.
//
// Promises:
//   - an acknowledged version is there with its pages, until somebody deletes it;
//   - a deleted version stays deleted, on every node;
//   - versions are unique and grow;
//   - at every moment some node has the pages of each acknowledged version;
//   - in the end each version is on its owners and nowhere else, as it was agreed. No document is
//     hot any more then.
#ifndef QUIRE_TESTS_SIM_SIM_CLUSTER_H_
#define QUIRE_TESTS_SIM_SIM_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/directory/etcd_directory.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_scenario.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

struct SimReport {
  std::vector<std::string> broken;  ///< Promises; empty when all were kept.
  std::vector<std::string> story;   ///< Calls of clients, and their answers.
  uint64_t fingerprint = 0;         ///< Number that depends on all events.
  uint64_t events = 0;
  uint64_t registered = 0, deleted = 0, found = 0;
  uint64_t faults = 0;
  uint64_t read_at_extra = 0;  ///< Reads that an extra owner of a hot document answered.
  double settle_seconds = 0;   ///< Simulated time until the cluster had settled.
};

[[nodiscard]] SimReport RunSimulation(const SimScenario& scenario, uint64_t seed);

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_CLUSTER_H_
