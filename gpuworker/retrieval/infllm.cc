// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/infllm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpuworker/retrieval/digest_selector.h"
#include "gpuworker/retrieval/host_keys.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> InfLlmPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  return std::unique_ptr<RetrievalPolicy>(new InfLlmPolicy(context));
}

RetrievalOptions InfLlmPolicy::Published(uint32_t page_tokens) {
  // Of 32 blocks that are resident 16 are attended to.
  constexpr uint32_t kSinks = 128, kWindow = 4096, kBlocks = 32;
  return Divide(std::string(kName), page_tokens,
                {.sinks = kSinks,
                 .window = kWindow,
                 .selected = kBlocks / 2 * kBlockTokens,
                 .total = kSinks + kWindow + kBlocks * kBlockTokens});
}

InfLlmPolicy::InfLlmPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens, SelectableTokens(context.options)),
      spec_(context.spec),
      device_(context.device),
      block_pages_(std::max(1u, kBlockTokens / spec_.page_tokens)),
      representatives_(
          std::clamp(kRepresentatives * spec_.page_tokens / kBlockTokens, 1u, spec_.page_tokens)),
      layers_(spec_.num_layers) {}

Status InfLlmPolicy::OnPageComplete(uint32_t layer_index, uint32_t, const void* units) {
  if (!WantsUnits(layer_index)) return OkStatus();
  Layer& layer = layers_[layer_index];
  QUIRE_ASSIGN_OR_RETURN(std::vector<float> keys, ReadKeys(spec_, device_, units));
  layer.recent.push_back(
      {.keys = std::move(keys),
       .received = std::vector<float>(size_t{spec_.num_kv_heads} * spec_.page_tokens)});
  // The window holds the open page as well.
  if (layer.recent.size() >= Layout(layer_index).window_pages) Represent(&layer);
  return OkStatus();
}

void InfLlmPolicy::Represent(Layer* layer) const {
  const Recent page = std::move(layer->recent.front());
  layer->recent.pop_front();
  const size_t p = spec_.page_tokens, d = spec_.head_dim;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    const auto received = std::span(page.received).subspan(head * p, p);
    const bool attended = std::ranges::any_of(received, [](float weight) { return weight > 0; });
    const std::vector<uint32_t> tokens =
        BestPages(received, 0, attended ? representatives_ : spec_.page_tokens);
    std::vector<float> mean(d);
    for (const uint32_t token : tokens)
      AddTo(std::span(page.keys).subspan((head * p + token) * d, d), mean);
    for (float& value : mean) value /= static_cast<float>(tokens.size());
    layer->keys.insert(layer->keys.end(), mean.begin(), mean.end());
  }
}

void InfLlmPolicy::Attend(std::span<const float> query, Layer* layer) const {
  const size_t p = spec_.page_tokens, d = spec_.head_dim, group = spec_.group_size();
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  std::vector<float> weights(layer->recent.size() * p);
  for (uint32_t a = 0; a < spec_.num_query_heads && !weights.empty(); ++a) {
    const size_t head = a / group;
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto keys = std::span(layer->recent[i / p].keys);
      weights[i] = scale * Dot(query.subspan(a * d, d), keys.subspan((head * p + i % p) * d, d));
    }
    const float most = *std::ranges::max_element(weights);
    float total = 0;
    for (float& weight : weights) total += weight = std::exp(weight - most);
    for (size_t i = 0; i < weights.size(); ++i) {
      layer->recent[i / p].received[head * p + i % p] += weights[i] / total;
    }
  }
}

float InfLlmPolicy::Score(const Layer& layer, std::span<const float> query, uint32_t page) const {
  const size_t d = spec_.head_dim;
  float score = 0;
  for (uint32_t a = 0; a < spec_.num_query_heads; ++a) {
    const size_t row = size_t{page} * spec_.num_kv_heads + a / spec_.group_size();
    score += Dot(query.subspan(a * d, d), std::span(layer.keys).subspan(row * d, d));
  }
  return score;
}

StatusOr<Selection> InfLlmPolicy::Select(const SelectRequest& request) {
  Layer& layer = layers_[request.layer];
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> query, ReadQuery(spec_, device_, request.q));
  Attend(query, &layer);
  if (auto selection = SelectWithoutChoice(request, spec_.num_kv_heads)) return *selection;
  const size_t page_values = size_t{spec_.num_kv_heads} * spec_.head_dim;
  while (layer.keys.size() / page_values < request.candidates.end && !layer.recent.empty()) {
    Represent(&layer);
  }
  if (layer.keys.size() / page_values < request.candidates.end) {
    return FailedPrecondition("layer ", request.layer, ": candidates end at page ",
                              request.candidates.end, ", complete pages at ",
                              layer.keys.size() / page_values);
  }
  const uint32_t first_block = request.candidates.first / block_pages_;
  const auto pages_of = [&](uint32_t block) {
    return PageRange{std::max(block * block_pages_, request.candidates.first),
                     std::min((block + 1) * block_pages_, request.candidates.end)};
  };
  std::vector<float> scores;
  for (uint32_t block = first_block; block * block_pages_ < request.candidates.end; ++block) {
    const PageRange pages = pages_of(block);
    float score = 0;
    for (uint32_t page = pages.first; page < pages.end; ++page) score += Score(layer, query, page);
    scores.push_back(score / static_cast<float>(pages.size()));
  }
  std::vector<uint32_t> selected;
  for (const uint32_t block : BestFirst(scores)) {
    const PageRange pages = pages_of(first_block + block);
    for (uint32_t page = pages.first; page < pages.end; ++page) {
      if (selected.size() < request.max_pages) selected.push_back(page);
    }
  }
  std::ranges::sort(selected);
  return Selection{.pages = std::vector<std::vector<uint32_t>>(spec_.num_kv_heads, selected),
                   .nan_scores = CountNan(scores)};
}

StatusOr<std::vector<bool>> InfLlmPolicy::NeedsBlocking(const SelectRequest&) {
  return std::vector<bool>(spec_.num_kv_heads, true);
}

}  // namespace quire::worker
