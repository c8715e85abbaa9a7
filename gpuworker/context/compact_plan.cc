// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/compact_plan.h"

#include <algorithm>

#include "gpuworker/context/positions.h"

namespace quire::worker {
namespace {

/// Positions that some layer reads or computes.
Positions ReadBySome(const ReusePlan& plan) {
  Positions read = plan.positions;
  for (const ViewCells& cells : plan.layers) {
    read = Union(Union(read, cells.visible), cells.hidden);
  }
  return read;
}

void Renumber(const Positions& read, Positions* positions) {
  for (uint64_t& position : *positions) {
    position = static_cast<uint64_t>(std::ranges::lower_bound(read, position) - read.begin());
  }
}

std::vector<PlacedPiece> PiecesOf(const PromptLayout& layout, const Positions& read) {
  std::vector<PlacedPiece> pieces;
  for (size_t i = 0; i < layout.sources.size(); ++i) {
    const PlacedSource& source = layout.sources[i];
    const auto begin = std::ranges::lower_bound(read, source.first);
    const auto end = std::ranges::lower_bound(read, source.first + source.tokens);
    for (auto at = begin; at != end; ++at) {
      const bool follows = at != begin && *std::prev(at) + 1 == *at;
      if (follows) {
        ++pieces.back().placed.tokens;
        continue;
      }
      const auto first = static_cast<uint64_t>(at - read.begin());
      pieces.push_back({i,
                        {.skipped = source.skipped + *at - source.first,
                         .tokens = 1,
                         .first = first,
                         .move = source.move - static_cast<int64_t>(*at - first)}});
    }
  }
  return pieces;
}

}  // namespace

StatusOr<CompactPrompt> Compact(const PromptLayout& layout, const RopeSpec& rope, ReusePlan* plan) {
  if (rope.scaling == RopeScaling::kDynamic) {
    return InvalidArgument(
        "the model's rotation depends on the length of the context, so parts of documents keep "
        "their positions");
  }
  const Positions read = ReadBySome(*plan);
  Renumber(read, &plan->positions);
  for (ViewCells& cells : plan->layers) {
    Renumber(read, &cells.visible);
    Renumber(read, &cells.hidden);
  }
  return CompactPrompt{.pieces = PiecesOf(layout, read), .tokens = read.size()};
}

}  // namespace quire::worker
