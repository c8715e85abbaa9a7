// SPDX-License-Identifier: Apache-2.0
#include "common/page/slot_map.h"

#include <algorithm>

namespace quire {
namespace {

/// Capacity of the undo log kept between plans. The first plan fills whole lanes, later ones a
/// part.
constexpr size_t kKeptChanges = 256;

/// Bits of a slot's index in a victim's rank.
constexpr uint32_t kSlotBits = 16;

/// Rank of a victim; lower leaves first.
uint64_t VictimRank(const SlotMap::Slot& slot, uint32_t index) {
  const uint64_t age = slot.page < 0 ? 0 : uint64_t{slot.last_selected} + 1;
  return age << kSlotBits | index;
}

/// Puts the `count` best victims first, in order.
void OrderVictims(std::vector<uint64_t>& victims, size_t count) {
  if (std::ranges::is_sorted(victims)) return;
  const auto end = victims.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != victims.end()) std::ranges::nth_element(victims, end);
  std::sort(victims.begin(), end);
}

}  // namespace

void PlacedUnits::Clear() {
  counts.clear();
  Resize(0);
}

void PlacedUnits::Resize(size_t units) {
  slots.resize(units);
  generations.resize(units);
  pages.resize(units);
  replaced.resize(units);
  crc32c.resize(units);
}

SlotMap::SlotMap(uint32_t num_heads, uint32_t slots_per_head)
    : num_heads_(num_heads),
      slots_per_head_(slots_per_head),
      slots_(size_t{num_heads} * slots_per_head) {}

void SlotMap::Plan(const PageLists& selected, Scratch& scratch, PlacedUnits* placed) {
  ++tick_;
  placed->Clear();
  for (uint32_t head = 0; head < num_heads_; ++head) {
    PlanHead(head, selected.Head(head), scratch, placed);
  }
}

void SlotMap::PlanHead(uint32_t head, std::span<const uint32_t> selected, Scratch& scratch,
                       PlacedUnits* placed) {
  const std::span<Slot> slots(slots_.data() + size_t{head} * slots_per_head_, slots_per_head_);
  scratch.selected.Reset(selected);
  scratch.victims.clear();
  size_t found = 0;
  for (uint32_t s = 0; s < slots_per_head_; ++s) {
    Slot& slot = slots[s];
    if (scratch.selected.Find(static_cast<uint32_t>(slot.page))) {
      slot.last_selected = tick_;
      ++found;
    } else {
      scratch.victims.push_back(VictimRank(slot, s));
    }
  }
  const size_t missing = selected.size() - found;
  placed->counts.push_back(static_cast<uint32_t>(missing));
  if (missing == 0) return;
  OrderVictims(scratch.victims, missing);
  Place(slots, selected, scratch, placed);
}

void SlotMap::Place(std::span<Slot> slots, std::span<const uint32_t> selected,
                    const Scratch& scratch, PlacedUnits* placed) {
  size_t unit = placed->size();
  placed->Resize(unit + placed->counts.back());
  const auto first = static_cast<uint32_t>(slots.data() - slots_.data());
  const uint64_t* victim = scratch.victims.data();
  for (size_t i = 0; i < selected.size(); ++i) {
    if (!scratch.selected.IsMissing(i)) continue;
    const auto s = static_cast<uint32_t>(*victim++ & ((1u << kSlotBits) - 1));
    Slot& slot = slots[s];
    undo_.push_back({first + s, slot});
    placed->slots[unit] = s;
    placed->generations[unit] = slot.generation + 1;
    placed->pages[unit] = selected[i];
    placed->replaced[unit] = slot.page;
    slot = {static_cast<int32_t>(selected[i]), slot.generation + 1, tick_};
    ++unit;
  }
}

void SlotMap::Commit() {
  if (undo_.capacity() > kKeptChanges) {
    undo_ = {};
  } else {
    undo_.clear();
  }
}

void SlotMap::Rollback() {
  for (const Change& change : undo_) slots_[change.index] = change.before;
  Commit();
}

void SlotMap::Replace(std::span<const int32_t> pages, std::span<const uint32_t> generations) {
  Commit();
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i] = {pages[i], generations[i], tick_};
}

void SlotMap::Clear() {
  Commit();
  std::ranges::fill(slots_, Slot{});
}

}  // namespace quire
