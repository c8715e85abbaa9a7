// SPDX-License-Identifier: Apache-2.0
//
// SlotMap: the page in each slot of one lane, per KV head, so that a reply carries only
// missing units. Pure bookkeeping: no I/O, no clock.
//
// A server has one for each lane. A client has one for a lane whose units lie on several servers.
//
// Plan() applies the placements at once and remembers the overwritten slots. Commit() forgets them;
// Rollback() restores them. In between, the map is the worker's after it got the reply.
//
// Victims are slots whose page is not selected: empty slots first (lowest index), then the least
// recently selected (lowest index among equals). A selection counts even when its plan is rolled
// back, since a rollback moves no page.
//
// Planning does not allocate once its scratch and its output have grown to the size of the lane.
// Thread-safety: none; the lane's claim guards it. Ownership: one per lane. Units: slots are
// indices in one head; pages are named member << 24 | page.
#ifndef QUIRE_COMMON_PAGE_SLOT_MAP_H_
#define QUIRE_COMMON_PAGE_SLOT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/page/selected_pages.h"
#include "quire/page_lists.h"

namespace quire {

/// The units to place in a lane, by head and page. Arrays have one entry per unit, except `counts`.
/// Clearing keeps the memory.
struct PlacedUnits {
  std::vector<uint32_t> counts;  ///< [n_kv] Number of units of each head.
  std::vector<uint32_t> slots;   ///< Slots of the units.
  std::vector<uint32_t>
      generations;                ///< Generations of the slots after the placement, which adds 1.
  std::vector<uint32_t> pages;    ///< Pages of the units.
  std::vector<int32_t> replaced;  ///< Replaced page of each slot; -1 when it was empty.
  std::vector<uint32_t> crc32c;   ///< CRC-32C of the units; filled in when they have been read.

  size_t size() const { return slots.size(); }
  void Clear();
  void Resize(size_t units);
  friend bool operator==(const PlacedUnits&, const PlacedUnits&) = default;
};

class SlotMap {
 public:
  struct Slot {
    int32_t page = -1;  ///< -1: empty
    uint32_t generation = 0;
    uint32_t last_selected = 0;  ///< Number of the plan that last selected it.
  };
  /// Reusable memory of plans.
  struct Scratch {
    SelectedPages selected;         ///< Selected pages of a head.
    std::vector<uint64_t> victims;  ///< Rank and slot.
  };

  /// REQUIRES: slots_per_head <= 65536.
  SlotMap(uint32_t num_heads, uint32_t slots_per_head);

  /// Bytes of a map of this size.
  static uint64_t Bytes(uint64_t num_heads, uint64_t slots_per_head) {
    return num_heads * slots_per_head * sizeof(Slot);
  }

  std::span<const Slot> slots(uint32_t head) const {
    return {slots_.data() + size_t{head} * slots_per_head_, slots_per_head_};
  }

  /// Makes `selected` resident and replaces `*placed` by the necessary placements. Every head has a
  /// list, ascending and distinct, of at most slots_per_head pages. REQUIRES: no placement is
  /// pending.
  void Plan(const PageLists& selected, Scratch& scratch, PlacedUnits* placed);
  void Commit();
  void Rollback();

  /// Replaces every slot by the worker's, [n_kv][slots_per_head] each. No placement is pending
  /// then.
  void Replace(std::span<const int32_t> pages, std::span<const uint32_t> generations);
  /// Empties every slot, as in a new map.
  void Clear();

 private:
  struct Change {
    uint32_t index;  ///< Index into slots_.
    Slot before;
  };
  void PlanHead(uint32_t head, std::span<const uint32_t> selected, Scratch& scratch,
                PlacedUnits* placed);
  void Place(std::span<Slot> slots, std::span<const uint32_t> selected, const Scratch& scratch,
             PlacedUnits* placed);

  uint32_t num_heads_;
  uint32_t slots_per_head_;
  uint32_t tick_ = 0;
  std::vector<Slot> slots_;   ///< [heads][slots_per_head]
  std::vector<Change> undo_;  ///< Slots overwritten by pending placements.
};

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_SLOT_MAP_H_
