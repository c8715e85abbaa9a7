// SPDX-License-Identifier: Apache-2.0
//
// BudgetShare: a budget that is a share of the context, with a sink page and a window of two. A
// page is never smaller than 16 tokens here, so that granularities have the same sinks and window.
// Thread-safety: a pure function.
#ifndef QUIRE_BENCH_KIT_BUDGET_SHARE_H_
#define QUIRE_BENCH_KIT_BUDGET_SHARE_H_

#include <algorithm>
#include <cstdint>

#include "gpuworker/retrieval/options.h"

namespace quire::bench {

/// In all layers, rounded down to whole pages, with at least one of them to select.
inline worker::RetrievalOptions BudgetShare(double percent, uint64_t context_tokens,
                                            uint32_t page_tokens) {
  const uint32_t end = std::max(16u, page_tokens);
  const auto wanted = static_cast<uint32_t>(static_cast<double>(context_tokens) * percent / 100);
  return {.budget_tokens = std::max(wanted / page_tokens * page_tokens, 3 * end + page_tokens),
          .sink_tokens = end,
          .window_tokens = 2 * end,
          .uncompressed_layers = {}};
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_BUDGET_SHARE_H_
