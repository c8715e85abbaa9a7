// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/arkvale.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> ArkValePolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  return std::unique_ptr<RetrievalPolicy>(new ArkValePolicy(context));
}

RetrievalOptions ArkValePolicy::Published(uint32_t page_tokens) {
  // Half of what is resident is attended to.
  RetrievalOptions options = Divide(
      std::string(kName), page_tokens,
      {.sinks = 2 * page_tokens, .window = 2 * page_tokens, .selected = 2048, .total = 4096});
  options.recall_layout = RecallLayout::kRows;  // Its host keeps pages in the device's order.
  return options;
}

}  // namespace quire::worker
