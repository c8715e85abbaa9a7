// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cachecraft/chunk_attention.h"

#include <algorithm>

namespace quire::worker {

AttentionCollector::AttentionCollector(std::unique_ptr<RowPlan> plan, const PromptLayout& layout,
                                       std::vector<ChunkAttention>* documents)
    : plan_(std::move(plan)), documents_(documents) {
  documents_->clear();
  for (size_t i = 0; i < layout.sources.size(); ++i) {
    const PlacedSource& source = layout.sources[i];
    spans_.push_back({source.first, source.first + source.tokens});
    documents_->push_back(
        {.inter = std::vector<double>(i), .tokens = std::vector<float>(source.tokens)});
  }
}

void AttentionCollector::ReadShares(uint32_t, std::span<const uint64_t> positions,
                                    std::span<const float> shares) {
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto after =
        std::ranges::upper_bound(spans_, positions[i], {}, &PositionSpan::first) - spans_.begin();
    const auto document = static_cast<size_t>(after - 1);
    if (positions[i] >= spans_[document].end) continue;  // A token of the question.
    const std::span<const float> of = shares.subspan(i * spans_.size(), spans_.size());
    ChunkAttention& chunk = (*documents_)[document];
    for (size_t before = 0; before < document; ++before) {
      chunk.inter[before] += of[before];
      chunk.tokens[positions[i] - spans_[document].first] += of[before];
    }
    chunk.intra += of[document];
    chunk.layers += 1.0 / static_cast<double>(chunk.tokens.size());
  }
}

void AttentionCollector::Finish(std::vector<ChunkAttention>* documents) {
  for (ChunkAttention& chunk : *documents) {
    if (chunk.layers == 0) continue;
    for (double& mass : chunk.inter) mass /= chunk.layers;
    for (float& mass : chunk.tokens) mass /= static_cast<float>(chunk.layers);
    chunk.intra /= chunk.layers;
  }
}

}  // namespace quire::worker
