// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/slot_cache.h"

#include <algorithm>

#include "common/page/layout.h"

namespace quire::bench {

SlotCache::SlotCache(const KvSpec& spec, uint32_t slots_per_head)
    : num_kv_heads_(spec.num_kv_heads),
      slots_(slots_per_head),
      unit_bytes_(UnitBytes(spec)),
      units_(uint64_t{spec.num_layers} * spec.num_kv_heads * slots_per_head * unit_bytes_),
      pages_(units_.size() / unit_bytes_) {}

void SlotCache::Place(uint32_t layer, uint32_t head, uint32_t slot, uint32_t page,
                      std::span<const std::byte> unit) {
  std::ranges::copy(unit, Unit(IndexOf(layer, head, slot)).begin());
  pages_[IndexOf(layer, head, slot)] = page;
}

Status SlotCache::Check(const StepSelection& selection, const PagedContext& context) const {
  for (uint32_t layer = 0; layer < selection.size(); ++layer) {
    for (uint32_t head = 0; head < selection[layer].size(); ++head) {
      std::vector<uint32_t> held;
      for (uint32_t slot = 0; slot < slots_; ++slot) {
        const size_t index = IndexOf(layer, head, slot);
        const std::optional<uint32_t> page = pages_[index];
        if (!page) continue;
        held.push_back(*page);
        if (!std::ranges::equal(Unit(index), context.unit(layer, *page, head))) {
          return DataLoss("slot ", slot, " of layer ", layer, ", head ", head,
                          " does not have the bytes of page ", *page);
        }
      }
      std::ranges::sort(held);
      if (held != selection[layer][head]) {
        return DataLoss("the slots of layer ", layer, ", head ", head, " hold ", held.size(),
                        " pages that are not the ", selection[layer][head].size(), " selected");
      }
    }
  }
  return OkStatus();
}

}  // namespace quire::bench
