// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_network.h"

namespace quire::sim {

uint64_t SimNetwork::IncarnationOf(const std::string& name) const {
  const auto found = incarnations_.find(name);
  return found == incarnations_.end() ? 0 : found->second;
}

std::optional<Duration> SimNetwork::Delay(const std::string& from, const std::string& to) {
  ++num_messages_;
  const auto spread =
      static_cast<uint64_t>((quality_.most_delay - quality_.least_delay).count()) + 1;
  // Drawn also for lost ones, so that a cut changes as little of the run as possible.
  const Duration delay = quality_.least_delay + Duration(scheduler_.random().Below(spread));
  const bool lost = Chance(quality_.loss) || cut_.contains({from, to});
  if (!lost) return delay;
  ++num_lost_;
  return std::nullopt;
}

}  // namespace quire::sim
