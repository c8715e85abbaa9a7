// SPDX-License-Identifier: Apache-2.0
//
// SimScenario: what happens to a simulated cluster, from a file of `scenarios`:
//   {"nodes": 4, "zones": 2, "replicas": 2, "min_replicas": 1, "clients": 3, "seconds": 60,
//    "loss": 0.01, "duplicate": 0.01, "most_delay_ms": 20, "hot_readers": 2,
//    "hot_reads_per_second": 10, "hot_replicas": 2, "hot_keep_seconds": 6,
//    "faults": [{"kind": "crash", "every_s": 10, "for_s": 5}]}
// A fault comes about every `every_s` seconds and lasts about `for_s`. One of a kind at a time.
#ifndef QUIRE_TESTS_SIM_SIM_SCENARIO_H_
#define QUIRE_TESTS_SIM_SIM_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::sim {

enum class SimFaultKind : uint8_t {
  kCrash,      ///< A node's process ends, and starts again.
  kPartition,  ///< Some processes and the others do not reach each other.
  kOneWay,     ///< Messages of one process to another one are lost.
  kClockJump,  ///< A node's wall clock jumps, and back.
  kSlowDisk,   ///< A node's disk is a hundred times slower.
  kEtcdAway,   ///< No answer comes from etcd.
  kCompact,    ///< A compaction of etcd: its history is forgotten.
  kDrain,      ///< A node is drained, and undrained.
  kJoin,       ///< A node that never was there joins, and stays.
  kLongCrash,  ///< A node is away for much longer than its lease.
};

struct SimFault {
  SimFaultKind kind = SimFaultKind::kCrash;
  double every_s = 10;
  double for_s = 5;
};

struct SimScenario {
  std::string name;
  uint32_t nodes = 4;
  uint32_t zones = 2;
  uint32_t replicas = 2;
  uint32_t min_replicas = 1;
  uint32_t clients = 3;
  double seconds = 60;
  double loss = 0;
  double duplicate = 0;
  double most_delay_ms = 5;
  uint32_t hot_readers = 0;           ///< Clients that read one document all the time.
  uint32_t hot_reads_per_second = 0;  ///< 0: no document is hot.
  uint32_t hot_replicas = 2;
  uint32_t hot_keep_seconds = 6;
  std::vector<SimFault> faults = {};
};

/// INVALID_ARGUMENT saying what is wrong in the text.
[[nodiscard]] StatusOr<SimScenario> ParseScenario(const std::string& name, const std::string& text);
/// Reads all scenarios of a folder, in order of their names.
[[nodiscard]] StatusOr<std::vector<SimScenario>> ReadScenarios(const std::string& folder);

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_SCENARIO_H_
