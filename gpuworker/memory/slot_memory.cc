// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/slot_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "gpuworker/memory/layer_pace.h"

namespace quire::worker {
namespace {

/// Sequences that grow by a token a step.
class GrowingSlots final : public ComingSteps {
 public:
  GrowingSlots(uint32_t num_layers, uint64_t slot_bytes, std::span<const SequenceLoad> loads)
      : num_layers_(num_layers), slot_bytes_(slot_bytes), loads_(loads) {}

  uint32_t num_layers() const override { return num_layers_; }
  std::optional<uint32_t> FewestOffloaded(uint64_t steps) const override {
    for (uint32_t layers = 0; layers <= num_layers_; ++layers) {
      if (Fits(layers, steps)) return layers;
    }
    return std::nullopt;
  }

 private:
  bool Fits(uint32_t offloaded, uint64_t steps) const {
    uint64_t bytes = 0;
    for (const SequenceLoad& load : loads_) bytes += load.Bytes(offloaded, steps);
    return bytes <= slot_bytes_;
  }

  const uint32_t num_layers_;
  const uint64_t slot_bytes_;
  const std::span<const SequenceLoad> loads_;
};

}  // namespace

uint64_t SequenceLoad::Bytes(uint32_t offloaded, uint64_t more) const {
  const uint64_t then = std::max(tokens, std::min(tokens + more, most_tokens));
  const uint64_t bytes = demand->Bytes(offloaded, then);
  return dense == nullptr ? bytes : std::max(bytes, dense->Bytes(then));
}

void SlotMemory::BeforeStep(std::span<const SequenceLoad> loads) {
  if (rule_ == OffloadRule::kAlways) return;
  if (std::ranges::all_of(loads, &SequenceLoad::starts)) offloaded_ = 0;
  std::vector<SequenceLoad> longer(loads.begin(), loads.end());
  for (SequenceLoad& load : longer) load.tokens = RelaxedTokens(load.tokens);
  const GrowingSlots coming(num_layers_, slot_bytes_, loads);
  const GrowingSlots relaxed(num_layers_, slot_bytes_, longer);
  if (rule_ == OffloadRule::kLayerByLayer) {
    offloaded_ = FollowPace(offloaded_, PacedLayers(coming, 0), PacedLayers(relaxed, 0));
  } else if (coming.FewestOffloaded(0) != 0) {
    offloaded_ = num_layers_;
  } else if (relaxed.FewestOffloaded(0) == 0) {
    offloaded_ = 0;
  }
}

}  // namespace quire::worker
