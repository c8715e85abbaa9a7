// SPDX-License-Identifier: Apache-2.0
//
// SlotDemand: slot memory of one sequence, as BudgetCache allocates it, with some layers off the
// device. A layer that is off has its buffer: sinks, window and selectable slots. One that is whole
// has a slot for every page (CacheLayout::whole). A plain value.
//
// Units: bytes, pages, tokens.
#ifndef QUIRE_GPUWORKER_MEMORY_SLOT_DEMAND_H_
#define QUIRE_GPUWORKER_MEMORY_SLOT_DEMAND_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/cache/cache_layout.h"
#include "quire/kv_spec.h"

namespace quire::worker {

struct SlotDemand {
  uint64_t fixed_bytes = 0;  ///< Layers with a budget.
  uint64_t page_bytes = 0;   ///< One page of the layers that keep every page.
  uint32_t page_tokens = 1;

  /// Those of the first layers that may be whole.
  struct Layers {
    uint32_t count = 0;
    uint64_t buffer_slots = 0;  ///< Sum of their buffers.
  };
  uint64_t slot_bytes = 0;         ///< One page of one layer.
  std::vector<Layers> first = {};  ///< [n] is of layers [0, n). Empty: no layer is ever whole.

  /// Demand of a sequence with these layouts, one a layer. Where layers `may_be_whole`, those are
  /// that select.
  static SlotDemand Of(std::span<const CacheLayout> layouts, const KvSpec& spec,
                       bool may_be_whole = false);
  /// Slots that a layer with every page has at `tokens`.
  uint64_t Pool(uint64_t tokens) const {
    return PooledPages((tokens + page_tokens - 1) / page_tokens);
  }
  /// With every layer off.
  uint64_t Bytes(uint64_t tokens) const { return fixed_bytes + Pool(tokens) * page_bytes; }
  /// The most tokens, `limit` at most, that fit in `bytes` with every layer off; 0 for none.
  uint64_t MostTokens(uint64_t bytes, uint64_t limit) const;
  /// With the last `offloaded` layers off.
  uint64_t Bytes(uint32_t offloaded, uint64_t tokens) const {
    if (first.empty()) return Bytes(tokens);
    const Layers& whole = first[std::max<size_t>(first.size() - 1, offloaded) - offloaded];
    return Bytes(tokens) - whole.buffer_slots * slot_bytes +
           whole.count * Pool(tokens) * slot_bytes;
  }
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_SLOT_DEMAND_H_
