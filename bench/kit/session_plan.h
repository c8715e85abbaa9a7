// SPDX-License-Identifier: Apache-2.0
//
// Session plan: the time of a session to find the missing units and their slots, at 10,000 units a
// recall. The recall is a layer range of one sequence, with one selection that drifts from step to
// step. The store returns the same bytes for every unit, so its time does not count.
#ifndef QUIRE_BENCH_KIT_SESSION_PLAN_H_
#define QUIRE_BENCH_KIT_SESSION_PLAN_H_

#include <cstdint>

#include "common/base/status.h"

namespace quire::bench {

struct SessionPlanFigures {
  uint64_t units = 0;       ///< Units wanted by one recall.
  uint64_t units_sent = 0;  ///< Units sent by the median recall.
  /// Planning: the diff, victims, placements and addresses. Median over the rounds.
  double plan_us_per_10k_units = 0;
  /// Planning when every slot is replaced.
  double plan_all_us_per_10k_units = 0;
  /// A whole recall in the service, with checks, unit lookup and the parts of the reply, when every
  /// slot is replaced.
  double recall_all_us_per_10k_units = 0;
  /// A whole recall of a drifting step.
  double recall_us_per_10k_units = 0;
};

/// Measures `rounds` >= 1 recalls of each kind.
[[nodiscard]] StatusOr<SessionPlanFigures> MeasureSessionPlan(uint32_t rounds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_SESSION_PLAN_H_
