// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/razor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/page/layout.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> RazorPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  return std::unique_ptr<RetrievalPolicy>(new RazorPolicy(context));
}

RetrievalOptions RazorPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {.sinks = 4, .total = 4 + 4000});
}

RazorPolicy::RazorPolicy(const PolicyContext& context)
    : BudgetPolicy(context),
      max_pages_(static_cast<uint32_t>(
          DivideRoundUp(context.max_context_tokens, context.spec.page_tokens))),
      retrieves_(size_t{context.spec.num_layers} * num_kv_heads(), false) {
  for (uint32_t head : context.options.retrieval_heads) retrieves_[head] = true;
  if (!context.options.retrieval_heads.empty()) return;
  const size_t heads = retrieves_.size();
  const auto count = static_cast<size_t>(std::ceil(kRetrievalShare * static_cast<double>(heads)));
  for (size_t i = 0; i < count; ++i) retrieves_[i * heads / count] = true;
}

bool RazorPolicy::AnyCompressedLayerRetrieves() const {
  for (uint32_t head = 0; head < retrieves_.size(); ++head) {
    if (retrieves_[head] && !BudgetPolicy::Layout(head / num_kv_heads()).everything) return true;
  }
  return false;
}

CacheLayout RazorPolicy::Layout(uint32_t layer) const {
  CacheLayout layout = BudgetPolicy::Layout(layer);
  if (!layout.everything && AnyCompressedLayerRetrieves()) layout.selectable_pages = max_pages_;
  return layout;
}

StatusOr<Selection> RazorPolicy::Select(const SelectRequest& request) {
  const uint32_t recent =
      std::min(BudgetPolicy::Layout(request.layer).selectable_pages, request.candidates.size());
  Selection selection;
  for (uint32_t head = 0; head < num_kv_heads(); ++head) {
    const uint32_t count = Retrieves(request.layer, head)
                               ? std::min(request.candidates.size(), request.max_pages)
                               : recent;
    std::vector<uint32_t> pages(count);
    std::iota(pages.begin(), pages.end(), request.candidates.end - count);
    selection.pages.push_back(std::move(pages));
  }
  return selection;
}

}  // namespace quire::worker
