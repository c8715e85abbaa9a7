// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/layer_pace.h"

#include <algorithm>

namespace quire::worker {

uint32_t PacedLayers(const ComingSteps& coming, uint32_t lead) {
  const std::optional<uint32_t> now = coming.FewestOffloaded(0);
  if (!now) return coming.num_layers();
  const uint32_t sight = lead + coming.num_layers();
  if (coming.FewestOffloaded(sight) == now) return *now;
  uint32_t layers = 0;
  for (uint32_t step = 0; step <= sight; ++step) {
    const std::optional<uint32_t> needed = coming.FewestOffloaded(step);
    if (!needed) break;
    const uint32_t time = step > lead ? step - lead : 0;
    layers = std::max(layers, *needed > time ? *needed - time : 0);
  }
  return layers;
}

uint32_t FollowPace(uint32_t now, uint32_t needed, uint32_t relaxed) {
  if (needed > now) return needed;
  return std::max(needed, relaxed) < now ? now - 1 : now;
}

}  // namespace quire::worker
