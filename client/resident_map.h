// SPDX-License-Identifier: Apache-2.0
//
// ResidentMap: the worker's own record of which page each of its slots holds, per managed layer and
// KV head. It mirrors what the server committed; replies are checked against it and a resync sends
// it. Thread-safety: none. Units: slot and page numbers; generations count placements into a slot.
#ifndef QUIRE_CLIENT_RESIDENT_MAP_H_
#define QUIRE_CLIENT_RESIDENT_MAP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// One unit to put into a slot; its bytes are the i-th unit of RecallResult::payload.
struct Placement {
  uint32_t layer = 0;
  uint32_t head = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t page = 0;
  int32_t replaced = -1;
};

class ResidentMap {
 public:
  struct Slot {
    int32_t page = -1;  ///< -1: empty.
    uint32_t generation = 0;
  };

  /// `layers` distinct, in any order.
  ResidentMap(std::vector<uint32_t> layers, uint32_t num_heads, uint32_t slots_per_head);

  const std::vector<uint32_t>& layers() const { return layers_; }
  uint32_t num_heads() const { return num_heads_; }
  uint32_t slots_per_head() const { return slots_per_head_; }
  bool Manages(uint32_t layer) const { return layer < index_.size() && index_[layer] >= 0; }

  /// The slots of one head of a managed layer.
  std::span<const Slot> Slots(uint32_t layer, uint32_t head) const {
    return {slots_.data() + Offset(layer, head), slots_per_head_};
  }
  /// The placement's unit is in its slot. The placement must name a managed layer and an existing
  /// slot.
  void Place(const Placement& placement) {
    slots_[Offset(placement.layer, placement.head) + placement.slot] = {
        static_cast<int32_t>(placement.page), placement.generation};
  }

 private:
  size_t Offset(uint32_t layer, uint32_t head) const {
    return (static_cast<size_t>(index_[layer]) * num_heads_ + head) * slots_per_head_;
  }

  std::vector<uint32_t> layers_;
  std::vector<int32_t> index_;  ///< Layer -> its place in layers_, -1 when it is not managed.
  uint32_t num_heads_;
  uint32_t slots_per_head_;
  std::vector<Slot> slots_;  ///< [managed layers][num_heads][slots_per_head]
};

}  // namespace quire

#endif  // QUIRE_CLIENT_RESIDENT_MAP_H_
