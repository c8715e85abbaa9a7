// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/reuse_strict.h"

#include <utility>

#include "gpuworker/context/positions.h"

namespace quire::worker {

ReusePlan ReuseStrict(const PromptLayout& layout, uint32_t num_layers) {
  Positions positions;
  AppendRange(layout.question_first, layout.tokens(), &positions);
  return Computing(std::move(positions), AllCells(layout), num_layers);
}

}  // namespace quire::worker
