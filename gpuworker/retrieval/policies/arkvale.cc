// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/arkvale.h"

#include <utility>

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

ArkValePolicy::ArkValePolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens, SelectableTokens(context.options)),
      num_kv_heads_(context.spec.num_kv_heads),
      selector_(context, {.kind = kernels::DigestKind::kCentreDeviation,
                          .pooling = kernels::Pooling::kAvgS}) {}

std::optional<kernels::DigestKind> ArkValePolicy::WantedDigests(uint32_t layer) const {
  if (Layout(layer).selectable_pages == 0) return std::nullopt;
  return selector_.WantedDigests();
}

Status ArkValePolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                     std::shared_ptr<const StoredDigests> digests) {
  if (!WantedDigests(layer)) return OkStatus();
  return selector_.OnPrefillLayer(layer, num_pages, std::move(digests));
}

Status ArkValePolicy::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (!WantedDigests(layer)) return OkStatus();
  return selector_.OnPageComplete(layer, page, units);
}

StatusOr<Selection> ArkValePolicy::Select(const SelectRequest& request) {
  return selector_.Select(request);
}

StatusOr<std::vector<bool>> ArkValePolicy::NeedsBlocking(const SelectRequest&) {
  return std::vector<bool>(num_kv_heads_, true);
}

}  // namespace quire::worker
