// SPDX-License-Identifier: Apache-2.0
//
// RecallStats: what the recalls of a sequence have brought and cost. Plain values.
#ifndef QUIRE_GPUWORKER_RECALL_RECALL_STATS_H_
#define QUIRE_GPUWORKER_RECALL_RECALL_STATS_H_

#include <cstdint>

#include "quire/clock.h"

namespace quire::worker {

/// Totals. A layer-step is a step of a layer that a selection was made for.
struct RecallStats {
  uint64_t recalls = 0;          ///< Calls sent; a selection that is resident sends none.
  uint64_t bytes_moved = 0;      ///< Payload bytes that recalls brought.
  uint64_t selections = 0;       ///< Layer-steps.
  uint64_t units_selected = 0;   ///< Units of every selection, resident or not.
  uint64_t nan_scores = 0;       ///< Scores that were NaN, in selections made here.
  uint64_t units_missed = 0;     ///< Selected units that recalls brought.
  uint64_t units_landed = 0;     ///< Brought units that the server wrote into the staging area.
  uint64_t units_from_host = 0;  ///< Selected units that the host tier had.
  uint64_t units_damaged = 0;    ///< Units, sent or from the host tier, that failed their checksum.
  uint64_t blocking_layers = 0;  ///< Layer-steps with a head that blocked.
  uint64_t blocking_heads = 0;   ///< Heads that blocked, over all layer-steps.
  uint64_t late_prefetches = 0;  ///< Layer-steps whose prefetch missed the deadline.
  uint64_t late_corrections = 0;  ///< Layer-steps that went on without a correction.
  /// Time spent waiting for recalls and placing their units. Counts the host, and attention on a
  /// device that lags the host (PagedRun::OnStepDone).
  Duration stalled = {};

  /// Difference to `before`, which is earlier.
  RecallStats operator-(const RecallStats& before) const;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_RECALL_STATS_H_
