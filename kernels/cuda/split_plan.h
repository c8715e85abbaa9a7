// SPDX-License-Identifier: Apache-2.0
//
// How the slots of an attention are split over blocks. Plain arithmetic, without a device.
#ifndef QUIRE_KERNELS_CUDA_SPLIT_PLAN_H_
#define QUIRE_KERNELS_CUDA_SPLIT_PLAN_H_

#include <algorithm>
#include <cstdint>

namespace quire::kernels::cuda {

struct SplitPlan {
  int64_t splits = 1;
  int64_t slots_per_split = 0;  ///< the last split may have fewer
};

struct SplitRequest {
  int64_t n_slots = 0;
  int64_t page_tokens = 0;
  int64_t tile_tokens = 0;
  int64_t blocks_per_split = 0;  ///< blocks that one split launches
  int64_t wanted_blocks = 0;     ///< that fill the device
  int64_t split_bytes = 0;       ///< workspace of one split
  int64_t workspace_bytes = 0;
};

/// As many splits as fill the device, have a whole tile each, and fit the workspace. One split
/// writes its result itself and needs no workspace.
inline SplitPlan PlanSplits(const SplitRequest& r) {
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t useful = divide_up(r.n_slots * r.page_tokens, r.tile_tokens);
  const int64_t room = r.workspace_bytes / r.split_bytes;
  const int64_t splits =
      std::min({divide_up(r.wanted_blocks, r.blocks_per_split), useful, r.n_slots, room});
  SplitPlan plan;
  plan.slots_per_split = divide_up(r.n_slots, std::max<int64_t>(splits, 1));
  plan.splits = divide_up(r.n_slots, plan.slots_per_split);
  return plan;
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_SPLIT_PLAN_H_
