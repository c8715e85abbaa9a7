// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/slot_demand.h"

#include "quire/layout.h"

namespace quire::worker {

SlotDemand SlotDemand::Of(std::span<const CacheLayout> layouts, const KvSpec& spec,
                          bool may_be_whole) {
  const uint64_t slot_bytes = ExtentBytes(spec, 1);  // Keys and values of all heads.
  SlotDemand demand{.page_tokens = spec.page_tokens, .slot_bytes = slot_bytes};
  for (const CacheLayout& layout : layouts) {
    if (layout.everything) {
      demand.page_bytes += slot_bytes;
    } else {
      demand.fixed_bytes += slot_bytes * layout.num_slots();
    }
    if (may_be_whole) demand.buffer_slots.push_back(layout.selects() ? layout.num_slots() : 0);
  }
  return demand;
}

uint64_t SlotDemand::MostTokens(uint64_t bytes, uint64_t limit) const {
  uint64_t most = 0;
  while (most < limit) {
    const uint64_t middle = most + (limit - most + 1) / 2;
    if (Bytes(middle) <= bytes) {
      most = middle;
    } else {
      limit = middle - 1;
    }
  }
  return most;
}

}  // namespace quire::worker
