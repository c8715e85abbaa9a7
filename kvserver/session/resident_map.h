// SPDX-License-Identifier: Apache-2.0
//
// ResidentMap: which page each slot of a worker holds, per managed layer and KV head, so that a
// reply carries only what is missing. Pure bookkeeping: no I/O, no clock.
//
// Plan() applies the placements for one head at once and remembers what they overwrote; Commit()
// forgets that, Rollback() restores it. Between the two the map is what the worker will have if it
// got the reply.
//
// Victims are slots whose page is not selected: empty slots first (lowest index), then the least
// recently selected (lowest index among equals). So the same map and the same selections give the
// same placements, and a repeated request the same reply.
//
// Thread-safety: none; Session holds its mutex. Ownership: one per session.
// Units: slots are indices in one head; layers are indices into the managed layers.
#ifndef QUIRE_KVSERVER_SESSION_RESIDENT_MAP_H_
#define QUIRE_KVSERVER_SESSION_RESIDENT_MAP_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace quire::kvserver {

/// A unit to put into a slot.
struct Placement {
  uint32_t slot = 0;
  uint32_t generation = 0;  ///< Of the slot after this placement; grows by 1 with each.
  uint32_t page = 0;
  int32_t replaced = -1;  ///< The page that was in the slot; -1 when it was empty.
  friend bool operator==(const Placement&, const Placement&) = default;
};

class ResidentMap {
 public:
  struct Slot {
    int32_t page = -1;  ///< -1: empty
    uint32_t generation = 0;
    uint32_t last_selected = 0;  ///< Tick of the recall that last selected it.
  };

  ResidentMap(uint32_t num_layers, uint32_t num_heads, uint32_t slots_per_head);

  /// Bytes that a map of this size takes.
  static uint64_t Bytes(uint64_t num_layers, uint64_t num_heads, uint64_t slots_per_head) {
    return num_layers * num_heads * slots_per_head * sizeof(Slot);
  }

  uint32_t slots_per_head() const { return slots_per_head_; }
  std::span<const Slot> slots(uint32_t layer, uint32_t head) const {
    return {slots_.data() + Offset(layer, head), slots_per_head_};
  }

  /// Starts a recall: what it selects counts as more recent than everything before.
  void StartRecall() { ++tick_; }
  /// Makes `selected` (ascending, distinct, at most slots_per_head pages) resident at a layer and
  /// head and returns what has to be placed for it, in page order.
  std::vector<Placement> Plan(uint32_t layer, uint32_t head, std::span<const uint32_t> selected);
  void Commit() { undo_.clear(); }
  void Rollback();

  /// Replaces one head's slots with the worker's. Nothing may be pending.
  void Replace(uint32_t layer, uint32_t head, std::span<const int32_t> pages,
               std::span<const uint32_t> generations);

 private:
  size_t Offset(uint32_t layer, uint32_t head) const {
    return (static_cast<size_t>(layer) * num_heads_ + head) * slots_per_head_;
  }
  /// Slots of a head that hold no selected page, best victim first: `count` of them.
  std::vector<uint32_t> Victims(std::span<const Slot> slots, const std::vector<bool>& kept,
                                size_t count) const;
  void Change(size_t index, const Slot& slot);

  const uint32_t num_heads_;
  const uint32_t slots_per_head_;
  uint32_t tick_ = 0;
  std::vector<Slot> slots_;                    ///< [layers][heads][slots_per_head]
  std::vector<std::pair<size_t, Slot>> undo_;  ///< What pending changes overwrote, in order.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_RESIDENT_MAP_H_
