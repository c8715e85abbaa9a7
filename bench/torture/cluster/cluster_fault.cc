// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/cluster_fault.h"

#include <algorithm>
#include <array>

namespace quire::torture {
namespace {

struct FaultRow {
  std::string_view name;
  bool on_loopback;
  bool harms_disk;
};

/// In the order of the enumeration.
constexpr std::array<FaultRow, kNumClusterFaults> kRows = {{
    {"kill", true, false},
    {"stop", true, false},
    {"partition", true, false},
    {"etcd_cut", true, false},
    {"peers_cut", false, false},
    {"one_way", false, false},
    {"cut", true, false},
    {"delay", true, false},
    {"loss", true, false},
    {"throttle", true, false},
    {"etcd_leader", true, false},
    {"etcd_restart", true, false},
    {"disk_full", false, true},
    {"disk_error", false, true},
    {"disk_damage", true, true},
}};

const FaultRow& RowOf(ClusterFault fault) { return kRows[static_cast<size_t>(fault)]; }

}  // namespace

std::string_view Name(ClusterFault fault) { return RowOf(fault).name; }

std::string_view Name(ClusterNetwork network) {
  return network == ClusterNetwork::kLoopback ? "loopback" : "namespaces";
}

std::optional<ClusterFault> FaultNamed(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &FaultRow::name);
  if (row == kRows.end()) return std::nullopt;
  return static_cast<ClusterFault>(row - kRows.begin());
}

std::vector<ClusterFault> FaultsOn(ClusterNetwork network) {
  std::vector<ClusterFault> faults;
  for (size_t i = 0; i < kRows.size(); ++i) {
    const bool is_there = network == ClusterNetwork::kNamespaces || kRows[i].on_loopback;
    if (is_there) faults.push_back(static_cast<ClusterFault>(i));
  }
  return faults;
}

bool HarmsDisk(ClusterFault fault) { return RowOf(fault).harms_disk; }

}  // namespace quire::torture
