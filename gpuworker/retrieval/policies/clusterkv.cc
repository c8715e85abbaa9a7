// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/clusterkv.h"

#include <algorithm>
#include <utility>

#include "gpuworker/retrieval/digests/digest_selector.h"
#include "gpuworker/retrieval/keys/host_keys.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> ClusterKvPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  return std::unique_ptr<RetrievalPolicy>(new ClusterKvPolicy(context));
}

RetrievalOptions ClusterKvPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens,
                {.sinks = 16, .selected = 1024, .uncompressed_layers = {0, 1}});
}

ClusterKvPolicy::ClusterKvPolicy(const PolicyContext& context)
    : BudgetPolicy(context),
      spec_(context.spec),
      device_(context.device),
      layers_(spec_.num_layers) {
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    layers_[layer].clustered_end = Layout(layer).sink_pages;
    layers_[layer].waiting.resize(spec_.num_kv_heads);
    layers_[layer].clusters.assign(spec_.num_kv_heads, KeyClusters(spec_.head_dim));
  }
}

Status ClusterKvPolicy::OnPageComplete(uint32_t layer_index, uint32_t page, const void* units) {
  Layer& layer = layers_[layer_index];
  if (!WantsUnits(layer_index) || page < layer.clustered_end) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> keys, ReadKeys(spec_, device_, units));
  const size_t values = size_t{spec_.page_tokens} * spec_.head_dim;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    const auto of_head = std::span(keys).subspan(head * values, values);
    layer.waiting[head].insert(layer.waiting[head].end(), of_head.begin(), of_head.end());
  }
  return OkStatus();
}

Status ClusterKvPolicy::Cluster(Layer* layer) const {
  const auto tokens = static_cast<uint32_t>(layer->waiting[0].size() / spec_.head_dim);
  const bool is_document = layer->clusters[0].size() == 0;
  if (tokens == 0 || (!is_document && tokens < kTokensToCluster)) return OkStatus();
  const uint32_t count =
      is_document ? std::clamp(tokens / kTokensPerCluster, 1u, kMaxClusters) : kClustersAdded;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    QUIRE_RETURN_IF_ERROR(layer->clusters[head].Add(layer->waiting[head], layer->clustered_end,
                                                    spec_.page_tokens, count, kIterations));
    layer->waiting[head].clear();
  }
  layer->clustered_end += tokens / spec_.page_tokens;
  return OkStatus();
}

std::vector<float> ClusterKvPolicy::Scores(const KeyClusters& clusters, uint32_t head,
                                           std::span<const float> query) const {
  const size_t d = spec_.head_dim, group = spec_.group_size();
  std::vector<float> sum(d);
  for (size_t a = head * group; a < (head + 1) * group; ++a) AddTo(query.subspan(a * d, d), sum);
  std::vector<float> scores;
  for (size_t c = 0; c < clusters.size(); ++c) scores.push_back(Dot(sum, clusters.centroid(c)));
  return scores;
}

std::vector<uint32_t> ClusterKvPolicy::PagesOf(const SelectRequest& request, const Layer& layer,
                                               uint32_t head, std::span<const float> scores) {
  std::vector<uint32_t> selected;
  std::vector<bool> taken(request.candidates.size(), false);
  const auto take = [&](uint32_t page) {
    if (!request.candidates.contains(page) || selected.size() == request.max_pages) return;
    if (taken[page - request.candidates.first]) return;
    taken[page - request.candidates.first] = true;
    selected.push_back(page);
  };
  for (uint32_t page = request.candidates.end; page > layer.clustered_end; --page) take(page - 1);
  for (const uint32_t cluster : BestFirst(scores)) {
    for (const uint32_t page : layer.clusters[head].pages(cluster)) take(page);
  }
  std::ranges::sort(selected);
  return selected;
}

StatusOr<Selection> ClusterKvPolicy::Select(const SelectRequest& request) {
  if (auto selection = SelectWithoutChoice(request, spec_.num_kv_heads)) return *selection;
  Layer& layer = layers_[request.layer];
  QUIRE_RETURN_IF_ERROR(Cluster(&layer));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> query, ReadQuery(spec_, device_, request.q));
  Selection selection;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    const std::vector<float> scores = Scores(layer.clusters[head], head, query);
    selection.nan_scores += CountNan(scores);
    selection.pages.push_back(PagesOf(request, layer, head, scores));
  }
  return selection;
}

}  // namespace quire::worker
