// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/full_prefill.h"

#include <utility>

#include "gpuworker/context/positions.h"

namespace quire::worker {

ReusePlan FullPrefill(const PromptLayout& layout, uint32_t num_layers) {
  Positions positions;
  AppendRange(0, layout.tokens(), &positions);
  return Computing(std::move(positions), AllCells(layout, true), num_layers);
}

}  // namespace quire::worker
