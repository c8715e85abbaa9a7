// SPDX-License-Identifier: Apache-2.0
//
// NUMA nodes: the nodes with memory, and the arena's choice among them. Reading them is the only
// I/O; the choice is a pure function. Nodes have the kernel's numbers.
#ifndef QUIRE_KVSERVER_STORE_DRAM_NUMA_NODES_H_
#define QUIRE_KVSERVER_STORE_DRAM_NUMA_NODES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace quire::kvserver {

/// Stands for interleaving over all nodes with memory.
inline constexpr int kInterleaveNodes = -1;

/// Highest node number considered; the kernel's own limit is 1024.
inline constexpr int kMaxNumaNode = 1023;

/// Parses a list such as "0-1,4" into ascending numbers; nullopt when it is malformed.
[[nodiscard]] std::optional<std::vector<int>> ParseNodeList(std::string_view list);

/// "0, 1, 4".
[[nodiscard]] std::string FormatNodes(const std::vector<int>& nodes);

/// Nodes with memory, ascending. Node 0 alone when the kernel reports none.
[[nodiscard]] std::vector<int> MemoryNodes();

/// Returns the nodes to bind memory to, out of `nodes`. Empty when there is only one.
/// INVALID_ARGUMENT naming the nodes when `wanted` is neither one of them nor kInterleaveNodes.
[[nodiscard]] StatusOr<std::vector<int>> ChooseNodes(const std::vector<int>& nodes, int wanted);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_NUMA_NODES_H_
