// SPDX-License-Identifier: Apache-2.0
//
// SlotDemand: slot memory of one sequence, as BudgetCache allocates it, with some layers off the
// device. A layer that is off has its buffer: sinks, window and selectable slots. One that is whole
// has a slot for every page (CacheLayout::whole). A plain value.
//
// Units: bytes, pages, tokens.
#ifndef QUIRE_GPUWORKER_MEMORY_SLOT_DEMAND_H_
#define QUIRE_GPUWORKER_MEMORY_SLOT_DEMAND_H_

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

  uint64_t slot_bytes = 0;  ///< One page of one layer.
  /// [num_layers] slots of a layer's buffer; 0 for one that is never whole. Empty: none is.
  std::vector<uint32_t> buffer_slots = {};

  /// Demand of a sequence with these layouts, one a layer. Where layers `may_be_whole`, those are
  /// that select.
  static SlotDemand Of(std::span<const CacheLayout> layouts, const KvSpec& spec,
                       bool may_be_whole = false);
  uint64_t Pages(uint64_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  /// With every layer off.
  uint64_t Bytes(uint64_t tokens) const {
    return fixed_bytes + PooledPages(Pages(tokens)) * page_bytes;
  }
  /// The most tokens, `limit` at most, that fit in `bytes` with every layer off; 0 for none.
  uint64_t MostTokens(uint64_t bytes, uint64_t limit) const;
  /// Bytes that it takes more, or less, when `layer` is whole.
  int64_t WholeBytes(uint32_t layer, uint64_t tokens) const {
    if (layer >= buffer_slots.size() || buffer_slots[layer] == 0) return 0;
    const auto slots = static_cast<int64_t>(WholePages(Pages(tokens), layer));
    return (slots - buffer_slots[layer]) * static_cast<int64_t>(slot_bytes);
  }
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_SLOT_DEMAND_H_
