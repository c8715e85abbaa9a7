// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/oracle_policy.h"

namespace quire::bench {

OraclePolicy::OraclePolicy(const worker::PolicyContext& context, const ExactAttention* exact)
    : BudgetPolicy(context, context.options.window_tokens, SelectableTokens(context.options)),
      num_kv_heads_(context.spec.num_kv_heads),
      exact_(exact) {}

StatusOr<worker::Selection> OraclePolicy::Select(const worker::SelectRequest& request) {
  worker::Selection selection;
  for (uint32_t head = 0; head < num_kv_heads_; ++head) {
    selection.pages.push_back(exact_->BestPages(head, request.candidates, request.max_pages));
  }
  return selection;
}

StatusOr<std::vector<bool>> OraclePolicy::NeedsBlocking(const worker::SelectRequest&) {
  return std::vector<bool>(num_kv_heads_, true);
}

}  // namespace quire::bench
