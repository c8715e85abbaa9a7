// SPDX-License-Identifier: Apache-2.0
//
// CacheBlend (arXiv 2405.16444): the tokens whose fresh values differ most from their cached ones
// are computed in every layer. Layers up to the check layer compute all rows. The check layer
// chooses, and where the filter is gradual each layer after it chooses again, from fewer and fewer.
// Thread-safety: pure function. Units: shares of the documents' tokens.
#ifndef QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_H_
#define QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_H_

#include <cstdint>

#include "gpuworker/context/reuse_plan.h"

namespace quire::worker {

struct CacheBlendOptions {
  double ratio = 0.15;       ///< Share of the documents' tokens, in [0, 1].
  uint32_t check_layer = 1;  ///< Layer that compares; at most the last one.
  /// The share falls from 1.3 to 0.7 times the ratio behind the check layer, instead of being the
  /// same in all layers.
  bool gradual = false;
};

ReusePlan CacheBlend(const PromptLayout& layout, uint32_t num_layers,
                     const CacheBlendOptions& options = {});

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_H_
