// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/raas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpuworker/retrieval/host_keys.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> RaasPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  return std::unique_ptr<RetrievalPolicy>(new RaasPolicy(context));
}

RetrievalOptions RaasPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {.total = 2048});
}

RaasPolicy::RaasPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens, SelectableTokens(context.options)),
      num_kv_heads_(context.spec.num_kv_heads),
      selector_(context, {.kind = context.options.digest, .scale = context.options.score_scale}),
      layers_(context.spec.num_layers) {
  for (Layer& layer : layers_) layer.kept.resize(num_kv_heads_);
}

Status RaasPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                  std::shared_ptr<const StoredDigests> digests) {
  layers_[layer].document_pages = num_pages;
  if (!WantsDigests(layer)) return OkStatus();
  return selector_.OnPrefillLayer(layer, num_pages, std::move(digests));
}

Status RaasPolicy::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (!WantsDigests(layer)) return OkStatus();
  return selector_.OnPageComplete(layer, page, units);
}

std::vector<uint32_t> RaasPolicy::Update(const SelectRequest& request, const Layer& layer,
                                         std::span<const float> weights, std::vector<Kept>* kept) {
  const auto weight = [&](uint32_t page) { return weights[page - request.candidates.first]; };
  const uint32_t enters = std::max(layer.seen_end, request.candidates.first);
  std::vector<uint32_t> entering;
  if (enters < request.candidates.end) {
    entering = BestPages(weights.subspan(enters - request.candidates.first), enters,
                         std::max(request.max_pages, 1u));
  }
  for (const uint32_t page : entering) kept->push_back({.page = page, .stamp = layer.step});
  float total = 0;
  for (const Kept& k : *kept) total += std::isnan(weight(k.page)) ? 0 : weight(k.page);
  for (Kept& k : *kept) {
    if (weight(k.page) > kAlpha * total) k.stamp = layer.step;
  }
  while (kept->size() > request.max_pages) {
    kept->erase(std::ranges::min_element(*kept, {}, [&](const Kept& k) {
      return std::pair(k.page < layer.document_pages, k.stamp);
    }));
  }
  std::vector<uint32_t> pages;
  for (const Kept& k : *kept) pages.push_back(k.page);
  return pages;
}

StatusOr<Selection> RaasPolicy::Select(const SelectRequest& request) {
  Layer& layer = layers_[request.layer];
  ++layer.step;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> weights, selector_.Weights(request));
  const size_t pages = request.candidates.size();
  Selection selection{.nan_scores = CountNan(weights)};
  for (uint32_t head = 0; head < num_kv_heads_; ++head) {
    selection.pages.push_back(
        Update(request, layer, std::span(weights).subspan(head * pages, pages), &layer.kept[head]));
  }
  layer.seen_end = std::max(layer.seen_end, request.candidates.end);
  return selection;
}

StatusOr<std::vector<bool>> RaasPolicy::NeedsBlocking(const SelectRequest&) {
  return std::vector<bool>(num_kv_heads_, true);
}

}  // namespace quire::worker
