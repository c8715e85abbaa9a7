// SPDX-License-Identifier: Apache-2.0
//
// Session plan: what a session takes to find which units are missing and where they go, at 10,000
// units a recall: a layer range of one sequence with one selection that drifts from step to step.
// The store hands out the same bytes for every unit, so that nothing else is measured.
#ifndef QUIRE_BENCH_KIT_SESSION_PLAN_H_
#define QUIRE_BENCH_KIT_SESSION_PLAN_H_

#include <cstdint>

#include "quire/status.h"

namespace quire::bench {

struct SessionPlanFigures {
  uint64_t units = 0;       ///< Wanted by one recall.
  uint64_t units_sent = 0;  ///< By the middle one.
  /// Planning: the diff, victims, placements and addresses. Medians over the rounds.
  double plan_us_per_10k_units = 0;
  /// The same when every slot is replaced.
  double plan_all_us_per_10k_units = 0;
  /// A whole recall as the service makes it, with checks, hand-out and the parts of the reply, when
  /// every slot is replaced.
  double recall_all_us_per_10k_units = 0;
  /// The same of a step that drifts.
  double recall_us_per_10k_units = 0;
};

/// `rounds` >= 1 recalls of each kind.
[[nodiscard]] StatusOr<SessionPlanFigures> MeasureSessionPlan(uint32_t rounds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_SESSION_PLAN_H_
