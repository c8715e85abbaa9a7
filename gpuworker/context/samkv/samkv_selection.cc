// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/samkv/samkv_selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace quire::worker {
namespace {

/// A middle block that its document retrieved.
struct Retrieved {
  double score;  ///< Normalised within its document.
  uint32_t document;
  uint32_t block;
};

/// Scores of one document's blocks in one layer.
class LayerScores {
 public:
  LayerScores(const BlockSplit& split, const LayerStatistics& layer,
              const std::vector<double>& scores)
      : split_(split), layer_(layer), scores_(scores) {}

  BlockScores Keys() const {
    const uint32_t last = split_.blocks() - 1;
    // The inner product with a mean is the mean of the inner products.
    return {.anchor = (scores_[0] + scores_[last - 1] + scores_[last]) / 3,
            .most = scores_[layer_.most],
            .least = scores_[layer_.least]};
  }

  /// The `quota` middle blocks with the largest scores, lower ones first among equal ones.
  void Retrieve(uint32_t quota, uint32_t document, std::vector<Retrieved>* retrieved) const {
    const std::span<const double> middle(scores_.data() + 1, split_.middle_blocks());
    const double mean = std::accumulate(middle.begin(), middle.end(), 0.0) / middle.size();
    double variance = 0;
    for (const double score : middle) variance += (score - mean) * (score - mean);
    const double deviation = std::sqrt(variance / middle.size());
    std::vector<uint32_t> order(middle.size());
    std::iota(order.begin(), order.end(), 1);
    std::ranges::stable_sort(order,
                             [&](uint32_t a, uint32_t b) { return scores_[a] > scores_[b]; });
    for (const uint32_t block : std::span(order).first(quota)) {
      retrieved->push_back(
          {deviation > 0 ? (scores_[block] - mean) / deviation : 0, document, block});
    }
  }

 private:
  const BlockSplit& split_;
  const LayerStatistics& layer_;
  const std::vector<double>& scores_;  ///< [blocks]
};

class Selection {
 public:
  Selection(std::span<const DocumentStatistics* const> documents, const DocumentScores& scores)
      : documents_(documents), scores_(scores) {}

  /// Scores of `document`, which has middle blocks, in `layer`.
  LayerScores Scores(uint32_t layer, size_t document) const {
    const DocumentStatistics& one = *documents_[document];
    return {one.split, one.layers[layer], scores_[document][layer]};
  }

  /// P_i, Eq. 3.
  double Ratio(size_t document, const SamKvOptions& options) const {
    std::vector<BlockScores> scores;
    for (const uint32_t layer : options.stable_layers) {
      scores.push_back(Scores(layer, document).Keys());
    }
    return RetrievalRatio(scores, options.weak_anchor);
  }

 private:
  const std::span<const DocumentStatistics* const> documents_;
  const DocumentScores& scores_;
};

/// Means over groups of query heads, [n_kv][d] of [n_q][d].
std::vector<float> MeansOfGroups(std::span<const float> query, const SamKvShape& shape) {
  const size_t group = shape.num_query_heads / shape.num_kv_heads;
  const size_t d = shape.head_dim;
  std::vector<float> means(shape.num_kv_heads * d);
  for (size_t head = 0; head < shape.num_query_heads; ++head) {
    for (size_t c = 0; c < d; ++c) {
      means[head / group * d + c] += query[head * d + c] / static_cast<float>(group);
    }
  }
  return means;
}

std::vector<uint32_t> LastEighth(uint32_t num_layers) {
  std::vector<uint32_t> layers((num_layers + 7) / 8);
  std::iota(layers.begin(), layers.end(), num_layers - layers.size());
  return layers;
}

/// The cross-context filter: the best of what all documents retrieved.
std::vector<std::vector<uint32_t>> Filter(std::vector<Retrieved> retrieved, size_t documents) {
  std::vector<std::vector<uint32_t>> kept(documents);
  if (retrieved.empty()) return kept;
  const auto quota = static_cast<size_t>(
      std::max(1.0, std::round(static_cast<double>(retrieved.size()) / documents)));
  std::ranges::sort(retrieved, [](const Retrieved& a, const Retrieved& b) {
    return std::tuple(-a.score, a.document, a.block) < std::tuple(-b.score, b.document, b.block);
  });
  for (const Retrieved& one : std::span(retrieved).first(std::min(quota, retrieved.size()))) {
    kept[one.document].push_back(one.block);
  }
  for (std::vector<uint32_t>& blocks : kept) std::ranges::sort(blocks);
  return kept;
}

}  // namespace

std::vector<float> ScoringQueries(std::span<const DocumentStatistics* const> documents,
                                  std::span<const std::vector<float>> question,
                                  const SamKvShape& shape, size_t document) {
  std::vector<float> queries;
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    std::vector<float> local;
    for (const DocumentStatistics* one : documents) {
      const std::vector<float>& query = one->layers[layer].local_query;
      local.insert(local.end(), query.begin(), query.end());
    }
    const std::vector<float> means =
        MeansOfGroups(PersonalisedQuery(question[layer], local, document), shape);
    queries.insert(queries.end(), means.begin(), means.end());
  }
  return queries;
}

std::vector<double> ScoresOfBlocks(const BlockSplit& split, uint32_t page_tokens,
                                   std::span<const float> pages) {
  std::vector<double> scores;
  scores.reserve(split.blocks());
  for (uint32_t block = 0; block < split.blocks(); ++block) {
    double sum = 0;
    for (uint32_t token = split.Begin(block); token < split.End(block);) {
      const uint32_t page = token / page_tokens;
      const uint32_t end = std::min(split.End(block), (page + 1) * page_tokens);
      sum += double{pages[page]} * (end - token);
      token = end;
    }
    scores.push_back(sum / (split.End(block) - split.Begin(block)));
  }
  return scores;
}

SelectedBlocks SelectBlocks(std::span<const DocumentStatistics* const> documents,
                            const DocumentScores& scores, const SamKvShape& shape,
                            const SamKvOptions& options) {
  SamKvOptions resolved = options;
  if (resolved.stable_layers.empty()) resolved.stable_layers = LastEighth(shape.num_layers);
  const Selection selection(documents, scores);
  std::vector<uint32_t> quotas;
  for (size_t i = 0; i < documents.size(); ++i) {
    const BlockSplit& split = documents[i]->split;
    const double ratio = split.has_middle() ? selection.Ratio(i, resolved) : 0;
    quotas.push_back(RetrievalQuota(ratio, split.middle_blocks()));
  }
  SelectedBlocks selected;
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    std::vector<Retrieved> retrieved;
    for (size_t i = 0; i < documents.size(); ++i) {
      if (quotas[i] == 0) continue;
      selection.Scores(layer, i).Retrieve(quotas[i], static_cast<uint32_t>(i), &retrieved);
    }
    selected.push_back(Filter(std::move(retrieved), documents.size()));
  }
  return selected;
}

}  // namespace quire::worker
