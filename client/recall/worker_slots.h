// SPDX-License-Identifier: Apache-2.0
//
// WorkerSlots: the worker's own record of a session's lanes. It has the page of each slot, per
// sequence, managed layer and KV head, and the progress of each lane. Every sequence has its own
// number of slots. The map mirrors what the server committed; replies are checked against it and a
// resync sends it. Thread-safety: none. Units: slot and page numbers; generations count the
// placements into a slot.
#ifndef QUIRE_CLIENT_RECALL_WORKER_SLOTS_H_
#define QUIRE_CLIENT_RECALL_WORKER_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quire/recall.h"

namespace quire::internal {

/// The layers of a session that have slots, in the order in which it was opened.
class ManagedLayers {
 public:
  /// `layers` are distinct.
  explicit ManagedLayers(std::vector<uint32_t> layers);

  std::span<const uint32_t> layers() const { return layers_; }
  size_t size() const { return layers_.size(); }
  bool Contains(uint32_t layer) const { return layer < index_.size() && index_[layer] >= 0; }
  /// The place of a layer that is managed.
  size_t IndexOf(uint32_t layer) const { return static_cast<size_t>(index_[layer]); }

 private:
  std::vector<uint32_t> layers_;
  std::vector<int32_t> index_;  ///< Layer -> its place in layers_, -1 when it is not managed.
};

class WorkerSlots {
 public:
  /// How far a lane has come. Exchanges; 0 for none.
  struct Lane {
    uint64_t applied = 0;    ///< The last one whose units are in the slots.
    uint64_t offered = 0;    ///< Handed to the caller, who may apply it.
    bool under_way = false;  ///< A recall of the lane has not come yet.
  };

  /// No sequences; each may have `slots_per_head` slots at most.
  WorkerSlots(ManagedLayers layers, uint32_t num_heads, uint32_t slots_per_head);

  const ManagedLayers& layers() const { return layers_; }
  uint32_t num_heads() const { return num_heads_; }
  uint32_t slots_per_head() const { return slots_per_head_; }
  bool Manages(uint32_t layer) const { return layers_.Contains(layer); }
  bool Has(uint32_t sequence) const {
    return sequence < sequences_.size() && sequences_[sequence].present;
  }
  /// Numbers of sequences are below this.
  uint32_t end_sequence() const { return static_cast<uint32_t>(sequences_.size()); }

  /// Takes in a sequence, which is not there, with so many slots, 1..slots_per_head(), all empty.
  void AddSequence(uint32_t sequence, uint32_t slots_per_head);
  /// Forgets a sequence.
  void RemoveSequence(uint32_t sequence);

  // The rest is for sequences and layers that there are.
  uint32_t slots_per_head(uint32_t sequence) const { return sequences_[sequence].slots_per_head; }
  Lane& lane(uint32_t sequence, uint32_t layer) {
    return sequences_[sequence].lanes[layers_.IndexOf(layer)];
  }
  const Lane& lane(uint32_t sequence, uint32_t layer) const {
    return sequences_[sequence].lanes[layers_.IndexOf(layer)];
  }
  /// [num_heads][slots_per_head(sequence)] pages, -1 for an empty slot.
  std::span<const int32_t> Pages(uint32_t sequence, uint32_t layer) const {
    return std::span(sequences_[sequence].pages)
        .subspan(FirstSlot(sequence, layer), LaneSlots(sequence));
  }
  /// [num_heads][slots_per_head(sequence)] placements so far.
  std::span<const uint32_t> Generations(uint32_t sequence, uint32_t layer) const {
    return std::span(sequences_[sequence].generations)
        .subspan(FirstSlot(sequence, layer), LaneSlots(sequence));
  }
  /// The placement's unit is in its slot, which there is.
  void Place(const Placement& placement);
  /// Marks the lane's slots as empty, since their content is unknown. Generations stay.
  void Empty(uint32_t sequence, uint32_t layer);

 private:
  struct Sequence {
    bool present = false;
    uint32_t slots_per_head = 0;
    std::vector<Lane> lanes;            ///< [managed layers]
    std::vector<int32_t> pages;         ///< [managed layers][num_heads][slots_per_head]
    std::vector<uint32_t> generations;  ///< As pages.
  };
  size_t LaneSlots(uint32_t sequence) const {
    return size_t{num_heads_} * sequences_[sequence].slots_per_head;
  }
  /// Where the slots of a lane begin among its sequence's.
  size_t FirstSlot(uint32_t sequence, uint32_t layer) const {
    return layers_.IndexOf(layer) * LaneSlots(sequence);
  }

  ManagedLayers layers_;
  uint32_t num_heads_;
  uint32_t slots_per_head_;
  std::vector<Sequence> sequences_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RECALL_WORKER_SLOTS_H_
