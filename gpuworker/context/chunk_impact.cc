// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/chunk_impact.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace quire::worker {

double ChunkContextImpact(const ChunkAttention& chunk) {
  if (chunk.tokens == 0 || chunk.intra <= 0) return 1;
  double inter = 0;  // By pair of tokens, but for the chunk's own number, which cancels out.
  for (const PrefixChunk& before : chunk.prefix) {
    if (before.tokens > 0) inter += before.inter / before.tokens;
  }
  return 1 / (1 + std::exp(-inter / (chunk.intra / chunk.tokens)));
}

double PrefixOverlap(const ChunkAttention& chunk, std::span<const uint64_t> new_prefix) {
  double all = 0, common = 0;
  for (const PrefixChunk& before : chunk.prefix) {
    all += before.inter;
    if (std::ranges::find(new_prefix, before.id) != new_prefix.end()) common += before.inter;
  }
  return all > 0 ? common / all : 1;
}

double OrderPenalty(const ChunkAttention& chunk, std::span<const uint64_t> new_prefix) {
  std::vector<ptrdiff_t> places;  // In the new prefix, of what is in both, in the old order.
  for (const PrefixChunk& before : chunk.prefix) {
    const auto found = std::ranges::find(new_prefix, before.id);
    if (found != new_prefix.end()) places.push_back(found - new_prefix.begin());
  }
  uint64_t turned = 0, pairs = 0;
  for (size_t second = 1; second < places.size(); ++second) {
    for (size_t first = 0; first < second; ++first, ++pairs) {
      if (places[first] > places[second]) ++turned;
    }
  }
  return pairs == 0 ? 0 : static_cast<double>(turned) / static_cast<double>(pairs);
}

double FixOverhead(const ChunkAttention& chunk, std::span<const uint64_t> new_prefix,
                   double scale) {
  const double kept = PrefixOverlap(chunk, new_prefix) * (1 - OrderPenalty(chunk, new_prefix));
  return std::clamp(scale * ChunkContextImpact(chunk) * (1 - kept), 0.0, 1.0);
}

}  // namespace quire::worker
