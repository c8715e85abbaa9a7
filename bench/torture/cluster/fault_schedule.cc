// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/fault_schedule.h"

#include <algorithm>
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

void Shuffle(std::vector<ClusterFault>* kinds, SeededRandom& random) {
  for (size_t i = kinds->size() - 1; i > 0; --i) {
    std::swap((*kinds)[i], (*kinds)[random.Below(i + 1)]);
  }
}

}  // namespace

std::vector<ScheduledFault> ScheduleFaults(const SchedulePlan& plan) {
  SeededRandom random(plan.seed);
  const Duration longest = std::clamp(plan.run / 6, kShortestFault, kLongestFault);
  const Duration calmest = std::clamp(plan.run / 20, kShortestCalm, kLongestCalm);
  const auto bad_disk = static_cast<uint32_t>(random.Below(plan.nodes));
  std::vector<ClusterFault> round = plan.kinds;
  std::vector<ScheduledFault> faults;
  Duration time = {};
  for (;;) {
    Shuffle(&round, random);
    for (const ClusterFault kind : round) {
      time += Between(kShortestCalm, calmest, random);
      const Duration length = Between(kShortestFault, longest, random);
      if (time + length > plan.run) return faults;
      const auto node = static_cast<uint32_t>(random.Below(plan.nodes));
      faults.push_back({.kind = kind,
                        .node = HarmsDisk(kind) ? bad_disk : node,
                        .start = time,
                        .length = length});
      time += length;
    }
  }
}

}  // namespace quire::torture
