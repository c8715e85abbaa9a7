// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/oracle_policy.h"

namespace quire::bench {

OraclePolicy::OraclePolicy(const worker::PolicyContext& context, const ExactAttention* exact)
    : BudgetPolicy(context), exact_(exact) {}

StatusOr<worker::Selection> OraclePolicy::Select(const worker::SelectRequest& request) {
  worker::Selection selection;
  for (uint32_t head = 0; head < num_kv_heads(); ++head) {
    selection.pages.push_back(exact_->BestPages(head, request.candidates, request.max_pages));
  }
  return selection;
}

}  // namespace quire::bench
