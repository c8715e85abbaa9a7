// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cacheblend/loading_controller.h"

#include <algorithm>

namespace quire::worker {

RatioChoice ChooseRatio(const LayerCosts& costs, double least) {
  if (!(costs.load > 0) || !(costs.prefill > 0)) return {.ratio = least};
  const double balancing = costs.load / costs.prefill;
  if (balancing > 1) return {.ratio = 1, .loads = false};
  return {.ratio = std::max(least, balancing)};
}

RatioChoice LoadProbe::Pass(RatioChoice choice) {
  without_load_ = choice.loads ? 0 : without_load_ + 1;
  if (without_load_ < kEvery) return choice;
  without_load_ = 0;
  choice.loads = true;
  return choice;
}

}  // namespace quire::worker
