// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/reuse_isolated.h"

#include "gpuworker/context/reuse_strict.h"

namespace quire::worker {

ReusePlan ReuseIsolated(const PromptLayout& layout, uint32_t num_layers) {
  ReusePlan plan = ReuseStrict(layout, num_layers);
  plan.layers.front().alone = {.first = layout.question_first, .end = layout.tokens() - 1};
  return plan;
}

}  // namespace quire::worker
