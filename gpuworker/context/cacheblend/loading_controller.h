// SPDX-License-Identifier: Apache-2.0
//
// CacheBlend's loading controller (arXiv 2405.16444): how much to compute while cached rows load. A
// layer's rows load beside the work on the layer before. Where loading takes longer, the time is
// spent on more computed rows. Where it takes longer than computing all, nothing is loaded.
// Thread-safety: pure functions. Units: seconds of one layer. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_LOADING_CONTROLLER_H_
#define QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_LOADING_CONTROLLER_H_

#include <cstdint>

namespace quire::worker {

struct LayerCosts {
  double load = 0;     ///< Loading all cached rows; 0 where it is not known.
  double prefill = 0;  ///< Computing all rows; 0 where it is not known.
};

struct RatioChoice {
  double ratio = 0;   ///< Share of the documents' tokens to compute.
  bool loads = true;  ///< False for full prefill, with ratio 1.
};

/// The larger of `least`, which the answer needs, and the ratio whose rows take as long to compute
/// as all rows take to load. `least` when a cost is not known.
RatioChoice ChooseRatio(const LayerCosts& costs, double least);

/// Lets some choices of full prefill load, so that a rate that was measured in a bad moment does
/// not stay for ever. Such a prompt computes everything, too, and has the same answer.
/// Thread-safety: none.
class LoadProbe {
 public:
  static constexpr uint32_t kEvery = 16;  ///< One of so many choices loads.

  RatioChoice Pass(RatioChoice choice);

 private:
  uint32_t without_load_ = 0;  ///< Choices since the last one that loads.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_LOADING_CONTROLLER_H_
