// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/resident_map.h"

#include <algorithm>
#include <tuple>

namespace quire::kvserver {

ResidentMap::ResidentMap(uint32_t num_layers, uint32_t num_heads, uint32_t slots_per_head)
    : num_heads_(num_heads),
      slots_per_head_(slots_per_head),
      slots_(size_t{num_layers} * num_heads * slots_per_head) {}

std::vector<Placement> ResidentMap::Plan(uint32_t layer, uint32_t head,
                                         std::span<const uint32_t> selected) {
  const size_t offset = Offset(layer, head);
  std::vector<bool> kept(slots_per_head_), resident(selected.size());
  for (uint32_t s = 0; s < slots_per_head_; ++s) {
    Slot slot = slots_[offset + s];
    if (slot.page < 0) continue;
    const auto page = static_cast<uint32_t>(slot.page);
    const auto it = std::lower_bound(selected.begin(), selected.end(), page);
    if (it == selected.end() || *it != page) continue;
    kept[s] = true;
    resident[static_cast<size_t>(it - selected.begin())] = true;
    slot.last_selected = tick_;
    Change(offset + s, slot);
  }
  const auto missing = static_cast<size_t>(std::count(resident.begin(), resident.end(), false));
  const std::vector<uint32_t> victims = Victims(slots(layer, head), kept, missing);
  std::vector<Placement> placements;
  placements.reserve(missing);
  for (size_t i = 0; i < selected.size(); ++i) {
    if (resident[i]) continue;
    const uint32_t s = victims[placements.size()];
    const Slot old = slots_[offset + s];
    placements.push_back({s, old.generation + 1, selected[i], old.page});
    Change(offset + s, {static_cast<int32_t>(selected[i]), old.generation + 1, tick_});
  }
  return placements;
}

std::vector<uint32_t> ResidentMap::Victims(std::span<const Slot> slots,
                                           const std::vector<bool>& kept, size_t count) const {
  std::vector<uint32_t> victims;
  victims.reserve(slots.size());
  for (uint32_t s = 0; s < slots.size(); ++s) {
    if (!kept[s]) victims.push_back(s);
  }
  const auto better = [&](uint32_t a, uint32_t b) {
    const auto rank = [&](uint32_t s) {
      return std::tuple(slots[s].page >= 0, slots[s].page >= 0 ? slots[s].last_selected : 0, s);
    };
    return rank(a) < rank(b);
  };
  std::partial_sort(victims.begin(), victims.begin() + static_cast<std::ptrdiff_t>(count),
                    victims.end(), better);
  victims.resize(count);
  return victims;
}

void ResidentMap::Change(size_t index, const Slot& slot) {
  undo_.emplace_back(index, slots_[index]);
  slots_[index] = slot;
}

void ResidentMap::Rollback() {
  for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) slots_[it->first] = it->second;
  undo_.clear();
}

void ResidentMap::Replace(uint32_t layer, uint32_t head, std::span<const int32_t> pages,
                          std::span<const uint32_t> generations) {
  const size_t offset = Offset(layer, head);
  for (uint32_t s = 0; s < slots_per_head_; ++s) {
    slots_[offset + s] = {pages[s], generations[s], tick_};
  }
}

}  // namespace quire::kvserver
