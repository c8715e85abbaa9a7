// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/raas.h"

#include <algorithm>
#include <utility>

#include "gpuworker/retrieval/keys/host_keys.h"
#include "kernels/cpu/cpu_kernels.h"

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
    : DigestPolicy(context, {.kind = context.options.digest, .scale = context.options.score_scale}),
      layers_(context.spec.num_layers) {
  for (Layer& layer : layers_) layer.kept.resize(num_kv_heads());
}

Status RaasPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                  std::shared_ptr<const StoredDigests> digests) {
  layers_[layer].document_pages = num_pages;
  return DigestPolicy::OnPrefillLayer(layer, num_pages, std::move(digests));
}

std::vector<float> RaasPolicy::Pool(const SelectRequest& request, std::span<const float> scores,
                                    std::span<const uint32_t> pages) {
  std::vector<float> weights(pages.size());
  if (pages.empty()) return weights;
  const size_t candidates = request.candidates.size(), group = scores.size() / candidates;
  std::vector<float> theirs;
  theirs.reserve(group * pages.size());
  for (size_t a = 0; a < group; ++a) {
    for (const uint32_t page : pages) {
      theirs.push_back(scores[a * candidates + page - request.candidates.first]);
    }
  }
  // Valid shapes, so it does not fail.
  (void)kernels::CpuKernels().pool({.scores = theirs.data(),
                                    .pooled = weights.data(),
                                    .n_q = static_cast<int64_t>(group),
                                    .n_kv = 1,
                                    .n_pages = static_cast<int64_t>(pages.size()),
                                    .pooling = kernels::Pooling::kAvgSM});
  return weights;
}

void RaasPolicy::Update(const SelectRequest& request, const Layer& layer,
                        std::span<const float> scores, std::vector<Kept>* kept,
                        Selection* selection) {
  const uint32_t enters = std::max(layer.seen_end, request.candidates.first);
  const uint32_t most = std::max(request.max_pages, 1u);
  std::vector<uint32_t> pages;
  for (const Kept& k : *kept) pages.push_back(k.page);
  for (uint32_t page = enters; page < request.candidates.end; ++page) pages.push_back(page);
  std::vector<float> weights = Pool(request, scores, pages);
  selection->nan_scores += CountNan(weights);
  if (pages.size() - kept->size() > most) {
    const std::vector<uint32_t> best =
        BestPages(std::span(weights).subspan(kept->size()), enters, most);
    pages.resize(kept->size());
    pages.insert(pages.end(), best.begin(), best.end());
    weights = Pool(request, scores, pages);
  }
  for (size_t i = kept->size(); i < pages.size(); ++i) {
    kept->push_back({.page = pages[i], .stamp = layer.step});
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    if (weights[i] > kAlpha) (*kept)[i].stamp = layer.step;
  }
  while (kept->size() > request.max_pages) {
    kept->erase(std::ranges::min_element(*kept, {}, [&](const Kept& k) {
      return std::pair(k.page < layer.document_pages, k.stamp);
    }));
  }
  std::vector<uint32_t>& selected = selection->pages.emplace_back();
  for (const Kept& k : *kept) selected.push_back(k.page);
}

StatusOr<Selection> RaasPolicy::Select(const SelectRequest& request) {
  Layer& layer = layers_[request.layer];
  ++layer.step;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> scores, selector().Scores(request));
  const size_t of_group = scores.size() / num_kv_heads();
  Selection selection;
  for (uint32_t head = 0; head < num_kv_heads(); ++head) {
    Update(request, layer, std::span(scores).subspan(head * of_group, of_group), &layer.kept[head],
           &selection);
  }
  layer.seen_end = std::max(layer.seen_end, request.candidates.end);
  return selection;
}

}  // namespace quire::worker
