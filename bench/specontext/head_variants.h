// SPDX-License-Identifier: Apache-2.0
//
// HeadVariant: a mode of a retrieval head with a granularity of selection and a memory. A page of
// one token is token granularity, since a unit is what is selected, fetched and placed. Pure
// functions.
#ifndef QUIRE_BENCH_SPECONTEXT_HEAD_VARIANTS_H_
#define QUIRE_BENCH_SPECONTEXT_HEAD_VARIANTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpuworker/head/head_weights.h"

namespace quire::bench {

/// Heads of one model by mode, each loaded from a draft.
using HeadsByMode = std::map<worker::HeadMode, std::shared_ptr<const worker::HeadWeights>>;

struct HeadVariant {
  worker::HeadMode mode = worker::HeadMode::kTrained;
  uint32_t page_tokens = 0;
  uint32_t memory = 1;  ///< RetrievalOptions::selection_memory

  /// "trained_token", "embed_only_page_32", "trained_page_16_memory_8"
  std::string key() const;
};

/// The mode `first` with the first granularity, the same with `memory`, and then every other mode
/// and granularity. REQUIRES: `heads` has `first`; there is a granularity.
std::vector<HeadVariant> MakeVariants(const HeadsByMode& heads, worker::HeadMode first,
                                      std::span<const uint32_t> page_tokens, uint32_t memory);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_SPECONTEXT_HEAD_VARIANTS_H_
