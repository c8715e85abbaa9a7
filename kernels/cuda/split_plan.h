// SPDX-License-Identifier: Apache-2.0
//
// The split of the slots of an attention over blocks. Plain arithmetic, without a device.
#ifndef QUIRE_KERNELS_CUDA_SPLIT_PLAN_H_
#define QUIRE_KERNELS_CUDA_SPLIT_PLAN_H_

#include <algorithm>
#include <cstdint>

namespace quire::kernels::cuda {

struct SplitPlan {
  int64_t splits = 1;
  int64_t slots_per_split = 0;  ///< Slots of each split; the last may have fewer.
};

struct SplitRequest {
  int64_t n_slots = 0;
  int64_t page_tokens = 0;
  int64_t tile_tokens = 0;
  int64_t blocks_per_split = 0;  ///< Blocks that one split launches.
  int64_t resident_blocks = 0;   ///< Blocks that the device runs at a time.
  int64_t split_bytes = 0;       ///< Workspace of one split.
  int64_t workspace_bytes = 0;
};

/// The splits with which the last block ends soonest. Model: blocks run in rounds of as many as the
/// device holds. A block takes the time of its tiles plus one, for its queries and its result. Each
/// split has at least a whole tile, and all fit the workspace. A single split writes its result
/// itself and needs no workspace.
inline SplitPlan PlanSplits(const SplitRequest& r) {
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t useful = divide_up(r.n_slots * r.page_tokens, r.tile_tokens);
  const int64_t room = r.workspace_bytes / r.split_bytes;
  // More than a few rounds of blocks gain little.
  const int64_t rounds = 4 * divide_up(r.resident_blocks, r.blocks_per_split);
  const int64_t most = std::max<int64_t>(1, std::min({useful, r.n_slots, room, rounds}));
  SplitPlan best;
  int64_t soonest = 0;
  for (int64_t splits = 1; splits <= most; ++splits) {
    const int64_t slots = divide_up(r.n_slots, splits);
    if (splits > 1 && slots == best.slots_per_split) continue;
    const int64_t blocks = divide_up(r.n_slots, slots) * r.blocks_per_split;
    const int64_t tiles = divide_up(slots * r.page_tokens, r.tile_tokens) + 1;
    const int64_t end = divide_up(blocks, r.resident_blocks) * tiles;
    if (splits > 1 && end >= soonest) continue;
    soonest = end;
    best = {.splits = divide_up(r.n_slots, slots), .slots_per_split = slots};
  }
  return best;
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_SPLIT_PLAN_H_
