// SPDX-License-Identifier: Apache-2.0
//
// ServerLaneMap: which page each slot of one lane holds, per KV head, so that a reply carries only
// what is missing. Pure bookkeeping: no I/O, no clock.
//
// Plan() applies the placements at once and remembers what they overwrote; Commit() forgets that,
// Rollback() restores it. Between the two the map is what the worker will have if it got the reply.
//
// Victims are slots whose page is not selected: empty slots first (lowest index), then the least
// recently selected (lowest index among equals). Being selected counts also when the plan is rolled
// back later: that moves no page.
//
// Planning allocates nothing once its scratch and its output have grown to the size of the lane.
// Thread-safety: none; the lane's claim guards it. Ownership: one per lane.
// Units: slots are indices in one head; pages are named member << 24 | page.
#ifndef QUIRE_KVSERVER_SESSION_SERVER_LANE_MAP_H_
#define QUIRE_KVSERVER_SESSION_SERVER_LANE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvserver/session/selected_pages.h"
#include "quire/page_lists.h"

namespace quire::kvserver {

/// The units to place in a lane, head by head and in each by page: one entry a unit in every array.
/// Clearing keeps the memory.
struct PlacedUnits {
  std::vector<uint32_t> counts;       ///< [n_kv] units of each head.
  std::vector<uint32_t> slots;        ///< Where they go.
  std::vector<uint32_t> generations;  ///< Of the slots after the placement; grow by 1 with each.
  std::vector<uint32_t> pages;        ///< What they are.
  std::vector<int32_t> replaced;      ///< The page that was in the slot; -1 when it was empty.
  std::vector<uint32_t> crc32c;       ///< Of the units; filled in when they have been read.

  size_t size() const { return slots.size(); }
  void Clear();
  void Resize(size_t units);
  friend bool operator==(const PlacedUnits&, const PlacedUnits&) = default;
};

class ServerLaneMap {
 public:
  struct Slot {
    int32_t page = -1;  ///< -1: empty
    uint32_t generation = 0;
    uint32_t last_selected = 0;  ///< Number of the plan that last selected it.
  };
  /// Memory that plans of any maps use, one after the other.
  struct Scratch {
    SelectedPages selected;         ///< Of a head.
    std::vector<uint64_t> victims;  ///< Rank and slot.
  };

  /// REQUIRES: slots_per_head <= 65536.
  ServerLaneMap(uint32_t num_heads, uint32_t slots_per_head);

  /// Bytes that a map of this size takes.
  static uint64_t Bytes(uint64_t num_heads, uint64_t slots_per_head) {
    return num_heads * slots_per_head * sizeof(Slot);
  }

  std::span<const Slot> slots(uint32_t head) const {
    return {slots_.data() + size_t{head} * slots_per_head_, slots_per_head_};
  }

  /// Makes `selected` resident and replaces `*placed` by what has to be placed for it. Every head
  /// has a list, ascending and distinct, of at most slots_per_head pages. Nothing may be pending.
  void Plan(const PageLists& selected, Scratch& scratch, PlacedUnits* placed);
  void Commit();
  void Rollback();

  /// Replaces every slot by the worker's, [n_kv][slots_per_head] each; nothing is pending then.
  void Replace(std::span<const int32_t> pages, std::span<const uint32_t> generations);
  /// Empties every slot, as in a new map.
  void Clear();

 private:
  struct Change {
    uint32_t index;  ///< Into slots_.
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
  std::vector<Change> undo_;  ///< What pending placements overwrote.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SERVER_LANE_MAP_H_
