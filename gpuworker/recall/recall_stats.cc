// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_stats.h"

namespace quire::worker {

RecallStats RecallStats::operator-(const RecallStats& before) const {
  return {.recalls = recalls - before.recalls,
          .bytes_moved = bytes_moved - before.bytes_moved,
          .selections = selections - before.selections,
          .units_selected = units_selected - before.units_selected,
          .nan_scores = nan_scores - before.nan_scores,
          .units_missed = units_missed - before.units_missed,
          .units_landed = units_landed - before.units_landed,
          .units_from_host = units_from_host - before.units_from_host,
          .units_damaged = units_damaged - before.units_damaged,
          .blocking_layers = blocking_layers - before.blocking_layers,
          .blocking_heads = blocking_heads - before.blocking_heads,
          .late_prefetches = late_prefetches - before.late_prefetches,
          .late_corrections = late_corrections - before.late_corrections,
          .stalled = stalled - before.stalled};
}

}  // namespace quire::worker
