// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/held_digests.h"

#include <span>
#include <utility>

namespace quire::kvserver {

std::shared_ptr<HeldDigests> HeldDigests::Start(Parts parts, Wanted wanted) {
  std::shared_ptr<HeldDigests> held(new HeldDigests(std::move(parts), std::move(wanted)));
  held->Submit(0);
  return held;
}

HeldDigests::HeldDigests(Parts parts, Wanted wanted)
    : parts_(std::move(parts)), wanted_(std::move(wanted)) {}

// One task per layer, so that a large context does not delay others.
void HeldDigests::Submit(size_t index) {
  if (index == wanted_.shape.layers.size()) return;
  const auto task = [weak = weak_from_this(), index] {
    const std::shared_ptr<HeldDigests> self = weak.lock();
    if (self == nullptr) return;  // The sequence has gone.
    if (self->HoldLayer(self->wanted_.shape.layers[index])) {
      self->parts_.counters->layers.Add();
      self->Submit(index + 1);
    } else {
      self->parts_.counters->stopped.Add();
    }
  };
  if (!parts_.executor->Submit(task).ok()) parts_.counters->stopped.Add();
}

bool HeldDigests::HoldLayer(uint32_t layer) {
  for (const auto& chain : wanted_.chains) {
    if (chain->empty()) continue;
    auto held = parts_.residency->Hold(wanted_.tenant, wanted_.spec,
                                       {*chain, std::span(&layer, 1), wanted_.shape.kind});
    // The first selection that needs an unreadable layer gets the error.
    if (!held.ok() || *held == nullptr) return false;
    MutexLock lock(mutex_);
    held_.push_back(*std::move(held));
  }
  return true;
}

}  // namespace quire::kvserver
