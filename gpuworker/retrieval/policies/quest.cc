// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/quest.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> QuestPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  return std::unique_ptr<RetrievalPolicy>(new QuestPolicy(context));
}

RetrievalOptions QuestPolicy::Published(uint32_t page_tokens) {
  RetrievalOptions options =
      Divide(std::string(kName), page_tokens, {.total = 2048, .uncompressed_layers = {0, 1}});
  options.pooling = kernels::Pooling::kMaxS;
  return options;
}

}  // namespace quire::worker
