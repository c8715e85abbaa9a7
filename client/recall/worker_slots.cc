// SPDX-License-Identifier: Apache-2.0
#include "client/recall/worker_slots.h"

#include <algorithm>
#include <utility>

namespace quire::internal {

ManagedLayers::ManagedLayers(std::vector<uint32_t> layers) : layers_(std::move(layers)) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i] >= index_.size()) index_.resize(layers_[i] + 1, -1);
    index_[layers_[i]] = static_cast<int32_t>(i);
  }
}

WorkerSlots::WorkerSlots(ManagedLayers layers, uint32_t num_heads, uint32_t slots_per_head)
    : layers_(std::move(layers)), num_heads_(num_heads), slots_per_head_(slots_per_head) {}

void WorkerSlots::AddSequence(uint32_t sequence, uint32_t slots_per_head) {
  if (sequence >= sequences_.size()) sequences_.resize(sequence + 1);
  const size_t slots = layers_.size() * num_heads_ * slots_per_head;
  sequences_[sequence] = {.present = true,
                          .slots_per_head = slots_per_head,
                          .lanes = std::vector<Lane>(layers_.size()),
                          .pages = std::vector<int32_t>(slots, -1),
                          .generations = std::vector<uint32_t>(slots)};
}

void WorkerSlots::RemoveSequence(uint32_t sequence) { sequences_[sequence] = {}; }

void WorkerSlots::Place(const Placement& placement) {
  Sequence& sequence = sequences_[placement.sequence];
  const size_t at = FirstSlot(placement.sequence, placement.layer) +
                    size_t{placement.head} * sequence.slots_per_head + placement.slot;
  sequence.pages[at] = static_cast<int32_t>(placement.page);
  sequence.generations[at] = placement.generation;
}

void WorkerSlots::Empty(uint32_t sequence, uint32_t layer) {
  const auto first =
      sequences_[sequence].pages.begin() + static_cast<ptrdiff_t>(FirstSlot(sequence, layer));
  std::fill_n(first, LaneSlots(sequence), -1);
}

}  // namespace quire::internal
