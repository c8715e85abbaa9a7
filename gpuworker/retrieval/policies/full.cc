// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/full.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> FullPolicy::Make(const PolicyContext& context) {
  return std::unique_ptr<RetrievalPolicy>(new FullPolicy(context.spec.num_kv_heads));
}

RetrievalOptions FullPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {});
}

StatusOr<Selection> FullPolicy::Select(const SelectRequest&) {
  return Selection{.pages = std::vector<std::vector<uint32_t>>(num_kv_heads_)};
}

StatusOr<std::vector<bool>> FullPolicy::NeedsBlocking(const SelectRequest&) {
  return std::vector<bool>(num_kv_heads_, false);
}

}  // namespace quire::worker
