// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/heat_rule.h"

#include <algorithm>

namespace quire::cluster {
namespace {

/// Part of the limit below which a document has cooled.
constexpr double kCool = 0.5;

}  // namespace

HeatStep StepOf(const Heat& heat, const HeatLimits& limits) {
  if (limits.reads_per_second == 0) return HeatStep::kNone;
  const double limit = limits.reads_per_second;
  const bool may_add = heat.extra < limits.most_extra && heat.owners < heat.most_owners;
  if (heat.reads_per_second > limit && may_add) return HeatStep::kAdd;
  // Reads of all owners, if they spread evenly, by the owners that would remain.
  const uint32_t remaining = std::max(heat.owners - std::min(heat.extra, heat.owners), 1u);
  const double without = heat.reads_per_second * heat.owners / remaining;
  return heat.extra > 0 && without > kCool * limit ? HeatStep::kKeep : HeatStep::kNone;
}

}  // namespace quire::cluster
