// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/infllm.h"

#include <algorithm>
#include <utility>

#include "gpuworker/retrieval/digests/digest_selector.h"
#include "gpuworker/retrieval/keys/host_keys.h"

namespace quire::worker {

StatusOr<std::unique_ptr<RetrievalPolicy>> InfLlmPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  return std::unique_ptr<RetrievalPolicy>(new InfLlmPolicy(context));
}

RetrievalOptions InfLlmPolicy::Published(uint32_t page_tokens) {
  // Attention is to 16 of 32 resident blocks.
  constexpr uint32_t kSinks = 128, kWindow = 4096, kBlocks = 32;
  return Divide(std::string(kName), page_tokens,
                {.sinks = kSinks,
                 .window = kWindow,
                 .selected = kBlocks / 2 * Representatives::kBlockTokens,
                 .total = kSinks + kWindow + kBlocks * Representatives::kBlockTokens});
}

InfLlmPolicy::InfLlmPolicy(const PolicyContext& context)
    : BudgetPolicy(context),
      spec_(context.spec),
      device_(context.device),
      block_pages_(Representatives::BlockPages(spec_)),
      layers_(spec_.num_layers) {}

std::optional<kernels::DigestKind> InfLlmPolicy::WantedDigests(uint32_t layer) const {
  if (Layout(layer).selectable_pages == 0) return std::nullopt;
  return kernels::DigestKind::kRepresentatives;
}

Status InfLlmPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                    std::shared_ptr<const StoredDigests> digests) {
  if (digests == nullptr || !WantedDigests(layer)) return OkStatus();
  if (digests->num_pages() != num_pages) {
    return DataLoss("layer ", layer, " has ", num_pages, " pages, and digests of ",
                    digests->num_pages());
  }
  std::vector<std::byte> bytes(digests->size_bytes());
  QUIRE_RETURN_IF_ERROR(device_->CopyToHost(bytes.data(), digests->data(), bytes.size()));
  std::vector<float>& stored = layers_[layer].stored;
  stored.resize(bytes.size() / ElementBytes(spec_.dtype));
  for (size_t i = 0; i < stored.size(); ++i) {
    stored[i] = LoadElement(bytes.data(), static_cast<int64_t>(i), spec_.dtype);
  }
  return OkStatus();
}

Representatives& InfLlmPolicy::Own(uint32_t layer) {
  std::optional<Representatives>& own = layers_[layer].own;
  if (!own) {
    const size_t stored = layers_[layer].stored.size() / (spec_.num_kv_heads * spec_.head_dim);
    own.emplace(spec_, static_cast<uint32_t>(stored), Layout(layer).window_pages);
  }
  return *own;
}

Status InfLlmPolicy::OnPageComplete(uint32_t layer, uint32_t, const void* units) {
  if (!WantedDigests(layer)) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(std::vector<float> keys, ReadKeys(spec_, device_, units));
  Own(layer).AddPage(std::move(keys));
  return OkStatus();
}

std::span<const float> InfLlmPolicy::MeanOf(const Layer& layer, uint32_t page) const {
  const size_t size = size_t{spec_.num_kv_heads} * spec_.head_dim;
  if (page >= layer.own->first_page()) return layer.own->mean(page);
  return std::span(layer.stored).subspan(page * size, size);
}

float InfLlmPolicy::Score(const Layer& layer, std::span<const float> query, uint32_t page) const {
  const size_t d = spec_.head_dim;
  const std::span<const float> mean = MeanOf(layer, page);
  float score = 0;
  for (uint32_t a = 0; a < spec_.num_query_heads; ++a) {
    score += Dot(query.subspan(a * d, d), mean.subspan(a / spec_.group_size() * d, d));
  }
  return score;
}

StatusOr<Selection> InfLlmPolicy::Select(const SelectRequest& request) {
  Layer& layer = layers_[request.layer];
  Representatives& own = Own(request.layer);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> query, ReadQuery(spec_, device_, request.q));
  QUIRE_RETURN_IF_ERROR(own.Attend(query));
  if (auto selection = SelectWithoutChoice(request, spec_.num_kv_heads)) return *selection;
  while (own.end_page() < request.candidates.end && own.in_window() > 0) own.Leave();
  if (own.end_page() < request.candidates.end) {
    return FailedPrecondition("layer ", request.layer, ": candidates end at page ",
                              request.candidates.end, ", complete pages at ", own.end_page());
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

}  // namespace quire::worker
