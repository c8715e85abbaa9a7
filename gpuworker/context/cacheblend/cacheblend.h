// SPDX-License-Identifier: Apache-2.0
//
// CacheBlend (arXiv 2405.16444): the tokens whose fresh values differ most from their cached ones
// are computed in every layer. Layers up to the check layer compute all rows. The check layer
// chooses, and where the filter is gradual each layer after it chooses again, from fewer and fewer.
// Thread-safety: pure function. Units: shares of the documents' tokens.
#ifndef QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_CACHEBLEND_H_
#define QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_CACHEBLEND_H_

#include <cstdint>
#include <optional>

#include "gpuworker/context/reuse_plan.h"

namespace quire::worker {

struct CacheBlendOptions {
  double ratio = 0.15;  ///< Share of the documents' tokens, in [0, 1].
  /// Layer that compares, one of the model's; 1 when unset, or the only layer.
  std::optional<uint32_t> check_layer = {};
  /// The share falls behind the check layer, and its mean over those layers is the ratio. It falls
  /// from 1.3 to 0.7 times the ratio, or from 1 where that is less.
  bool gradual = false;
};

ReusePlan CacheBlend(const PromptLayout& layout, uint32_t num_layers,
                     const CacheBlendOptions& options = {});

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CACHEBLEND_CACHEBLEND_H_
