// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/streaming.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> StreamingPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  return std::unique_ptr<RetrievalPolicy>(new StreamingPolicy(context));
}

RetrievalOptions StreamingPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {.sinks = 4, .total = 4 + 2000});
}

StreamingPolicy::StreamingPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.budget_tokens - context.options.sink_tokens, 0) {}

StatusOr<Selection> StreamingPolicy::Select(const SelectRequest&) {
  return Selection{.pages = std::vector<std::vector<uint32_t>>(num_kv_heads())};
}

}  // namespace quire::worker
