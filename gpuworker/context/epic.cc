// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/epic.h"

#include <algorithm>
#include <span>
#include <utility>

#include "gpuworker/context/positions.h"

namespace quire::worker {

ReusePlan Epic(const PromptLayout& layout, uint32_t num_layers, uint64_t k) {
  Positions positions;
  for (const PlacedSource& source : std::span(layout.sources).subspan(1)) {
    AppendRange(source.first, source.first + std::min(k, source.tokens), &positions);
  }
  AppendRange(layout.question_first, layout.tokens(), &positions);
  return Computing(std::move(positions), AllCells(layout), num_layers);
}

}  // namespace quire::worker
