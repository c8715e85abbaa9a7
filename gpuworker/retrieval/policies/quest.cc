// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/quest.h"

#include <utility>

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

QuestPolicy::QuestPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens, SelectableTokens(context.options)),
      num_kv_heads_(context.spec.num_kv_heads),
      selector_(context, {.kind = context.options.digest,
                          .pooling = context.options.pooling,
                          .scale = context.options.score_scale,
                          .side = context.options.side}) {}

std::optional<kernels::DigestKind> QuestPolicy::WantedDigests(uint32_t layer) const {
  if (Layout(layer).selectable_pages == 0) return std::nullopt;
  return selector_.WantedDigests();
}

Status QuestPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                   std::shared_ptr<const StoredDigests> digests) {
  if (!WantedDigests(layer)) return OkStatus();
  return selector_.OnPrefillLayer(layer, num_pages, std::move(digests));
}

Status QuestPolicy::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (!WantedDigests(layer)) return OkStatus();
  return selector_.OnPageComplete(layer, page, units);
}

StatusOr<Selection> QuestPolicy::Select(const SelectRequest& request) {
  return selector_.Select(request);
}

StatusOr<std::vector<bool>> QuestPolicy::NeedsBlocking(const SelectRequest&) {
  return std::vector<bool>(num_kv_heads_, true);
}

}  // namespace quire::worker
