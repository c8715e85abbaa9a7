// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/fault_schedule.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/base/random.h"

namespace quire::torture {
namespace {

using std::chrono::milliseconds;

/// Bounds of a fault, and of the calm before it. Short runs have shorter ones.
constexpr Duration kShortestFault = milliseconds(500);
constexpr Duration kLongestFault = milliseconds(8000);
constexpr Duration kShortestCalm = milliseconds(300);
constexpr Duration kLongestCalm = milliseconds(4000);

Duration Between(Duration least, Duration most, SeededRandom& random) {
  if (most <= least) return least;
  return least + Duration(random.Below(static_cast<uint64_t>((most - least).count())));
}

/// All kinds, shuffled.
std::array<ClusterFault, kNumClusterFaults> Round(SeededRandom& random) {
  std::array<ClusterFault, kNumClusterFaults> kinds;
  for (int i = 0; i < kNumClusterFaults; ++i) kinds[i] = static_cast<ClusterFault>(i);
  for (size_t i = kinds.size() - 1; i > 0; --i) std::swap(kinds[i], kinds[random.Below(i + 1)]);
  return kinds;
}

}  // namespace

std::string_view Name(ClusterFault fault) {
  static constexpr std::array<std::string_view, kNumClusterFaults> kNames = {
      "kill", "stop", "partition", "cut", "delay", "throttle", "etcd"};
  return kNames[static_cast<size_t>(fault)];
}

std::vector<ScheduledFault> ScheduleFaults(uint64_t seed, Duration run, uint32_t nodes) {
  SeededRandom random(seed);
  const Duration longest = std::clamp(run / 6, kShortestFault, kLongestFault);
  const Duration calmest = std::clamp(run / 20, kShortestCalm, kLongestCalm);
  std::vector<ScheduledFault> faults;
  Duration time = {};
  for (;;) {
    for (const ClusterFault kind : Round(random)) {
      time += Between(kShortestCalm, calmest, random);
      const Duration length = Between(kShortestFault, longest, random);
      if (time + length > run) return faults;
      faults.push_back({.kind = kind,
                        .node = static_cast<uint32_t>(random.Below(nodes)),
                        .start = time,
                        .length = length});
      time += length;
    }
  }
}

}  // namespace quire::torture
