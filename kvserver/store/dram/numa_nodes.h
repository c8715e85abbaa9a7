// SPDX-License-Identifier: Apache-2.0
//
// NUMA nodes: which ones have memory, and which of them the arena is to lie on. Reading them is the
// only I/O; the choice is a pure function. Nodes are numbered as the kernel numbers them.
#ifndef QUIRE_KVSERVER_STORE_DRAM_NUMA_NODES_H_
#define QUIRE_KVSERVER_STORE_DRAM_NUMA_NODES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::kvserver {

/// Instead of a node's number: pages go round all nodes that have memory.
inline constexpr int kInterleaveNodes = -1;

/// Nodes with a number above this are not considered; the kernel's own limit is 1024.
inline constexpr int kMaxNumaNode = 1023;

/// The numbers of a list such as "0-1,4", ascending; nullopt when it is not one.
[[nodiscard]] std::optional<std::vector<int>> ParseNodeList(std::string_view list);

/// "0, 1, 4".
[[nodiscard]] std::string FormatNodes(const std::vector<int>& nodes);

/// Nodes that have memory, ascending; node 0 alone where the kernel does not tell.
[[nodiscard]] std::vector<int> MemoryNodes();

/// The nodes to bind memory to, of those that `nodes` names; empty when there is nothing to choose,
/// that is, when there is only one. INVALID_ARGUMENT naming the nodes there are when `wanted` is
/// neither one of them nor kInterleaveNodes.
[[nodiscard]] StatusOr<std::vector<int>> ChooseNodes(const std::vector<int>& nodes, int wanted);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_NUMA_NODES_H_
