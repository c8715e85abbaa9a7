// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/slot_memory.h"

#include <algorithm>
#include <functional>
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
    std::vector<uint64_t> bytes(size_t{num_layers_} + 1);
    for (const SequenceLoad& load : loads_) {
      const std::vector<uint64_t> own = load.Bytes(num_layers_, steps);
      std::ranges::transform(bytes, own, bytes.begin(), std::plus<>());
    }
    const auto fits = std::ranges::find_if(bytes, [&](uint64_t b) { return b <= slot_bytes_; });
    if (fits == bytes.end()) return std::nullopt;
    return static_cast<uint32_t>(fits - bytes.begin());
  }

 private:
  const uint32_t num_layers_;
  const uint64_t slot_bytes_;
  const std::span<const SequenceLoad> loads_;
};

}  // namespace

std::vector<uint64_t> SequenceLoad::Bytes(uint32_t num_layers, uint64_t more) const {
  const uint64_t then = std::max(tokens, std::min(tokens + more, most_tokens));
  const uint64_t least = dense == nullptr ? 0 : dense->Bytes(then);
  std::vector<uint64_t> all(size_t{num_layers} + 1);
  auto bytes = static_cast<int64_t>(demand->Bytes(then));
  for (uint32_t whole = 0; whole <= num_layers; ++whole) {
    all[num_layers - whole] = std::max(static_cast<uint64_t>(bytes), least);
    bytes += demand->WholeBytes(whole, then);
  }
  return all;
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
