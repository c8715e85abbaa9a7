// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/loading_controller.h"

#include <algorithm>

namespace quire::worker {

RatioChoice ChooseRatio(const LayerCosts& costs, double least) {
  if (!(costs.load > 0) || !(costs.prefill > 0)) return {.ratio = least};
  const double balancing = costs.load / costs.prefill;
  if (balancing > 1) return {.ratio = 1, .loads = false};
  return {.ratio = std::max(least, balancing)};
}

}  // namespace quire::worker
