// SPDX-License-Identifier: Apache-2.0
//
// HeadVariant: a mode of a retrieval head with a granularity of selection, as shipped or as
// published. A page of one token is token granularity, since a unit is what is selected, fetched
// and placed. Pure functions.
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

/// End of the names of what looks back on no token (RetrievalOptions::selection_memory 1).
inline constexpr char kAsPublished[] = "_as_published";

struct HeadVariant {
  worker::HeadMode mode = worker::HeadMode::kTrained;
  uint32_t page_tokens = 0;
  bool as_published = false;

  /// "trained_token", "embed_only_page_32", "trained_page_16_as_published"
  std::string key() const;
};

/// The mode `first` with the first granularity, the same as published, and then every other mode
/// and granularity. REQUIRES: `heads` has `first`; there is a granularity.
std::vector<HeadVariant> MakeVariants(const HeadsByMode& heads, worker::HeadMode first,
                                      std::span<const uint32_t> page_tokens);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_SPECONTEXT_HEAD_VARIANTS_H_
