// SPDX-License-Identifier: Apache-2.0
//
// Which runs move when the nodes of a placement change. Pure functions.
#ifndef QUIRE_BENCH_PLACEMENT_MOVED_RUNS_H_
#define QUIRE_BENCH_PLACEMENT_MOVED_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/placement/placement.h"

namespace quire::bench {

/// Nodes of equal weight, numbered alike whatever their number.
inline cluster::Placement NodesOf(uint32_t nodes) {
  auto view = std::make_shared<cluster::ClusterView>();
  for (uint32_t i = 0; i < nodes; ++i) {
    const std::string number = std::to_string(100'000 + i);
    view->members.push_back({.name = "node-" + number, .node_id = "id-" + number});
  }
  return cluster::Placement(std::move(view));
}

inline std::vector<cluster::PlacementKey> RunKeys(uint32_t runs) {
  std::vector<cluster::PlacementKey> keys;
  for (uint32_t i = 0; i < runs; ++i) {
    keys.push_back(cluster::KeyOfDocument("default", "default", "document-" + std::to_string(i)));
  }
  return keys;
}

inline std::vector<uint32_t> OwnersOfAll(const cluster::Placement& placement,
                                         const std::vector<cluster::PlacementKey>& keys) {
  std::vector<uint32_t> owners;
  owners.reserve(keys.size());
  for (const cluster::PlacementKey key : keys) {
    owners.push_back(placement.OwnersOf(key, 1).members[0]);
  }
  return owners;
}

inline double MostOverMean(const std::vector<uint32_t>& owners, uint32_t nodes) {
  std::vector<uint64_t> counts(nodes);
  for (const uint32_t owner : owners) ++counts[owner];
  return static_cast<double>(*std::ranges::max_element(counts)) * nodes /
         static_cast<double>(owners.size());
}

/// Share of runs with another owner. Nodes are numbered alike in both.
inline double Moved(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after) {
  size_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i] ? 1 : 0;
  return static_cast<double>(moved) / static_cast<double>(before.size());
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_PLACEMENT_MOVED_RUNS_H_
