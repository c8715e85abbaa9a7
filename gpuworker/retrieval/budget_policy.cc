// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/budget_policy.h"

#include <algorithm>

#include "common/page/layout.h"

namespace quire::worker {

BudgetPolicy::BudgetPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens,
                   context.options.budget_tokens - context.options.sink_tokens -
                       context.options.window_tokens) {}

BudgetPolicy::BudgetPolicy(const PolicyContext& context, uint64_t window_tokens,
                           uint64_t selectable_tokens)
    : num_kv_heads_(context.spec.num_kv_heads), uncompressed_(context.spec.num_layers, false) {
  const uint32_t p = context.spec.page_tokens;
  const uint64_t most = DivideRoundUp(context.max_context_tokens, p);
  const auto pages = [&](uint64_t tokens) {
    return static_cast<uint32_t>(std::min(tokens / p, most));
  };
  compressed_ = {
      .sink_pages = pages(context.options.sink_tokens),
      .window_pages = std::max(2u, pages(window_tokens)),
      .selectable_pages = pages(selectable_tokens),
      .selected_pages = selectable_tokens == 0 ? 0 : pages(context.options.select_tokens)};
  for (uint32_t layer : context.options.uncompressed_layers) uncompressed_[layer] = true;
}

}  // namespace quire::worker
