// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/samkv_selection.h"

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
  LayerScores(const DocumentStatistics& document, const LayerStatistics& layer,
              std::span<const float> query, const SamKvShape& shape)
      : split_(document.split), layer_(layer) {
    const size_t group = shape.num_query_heads / shape.num_kv_heads;
    const size_t d = shape.head_dim;
    pooled_.resize(shape.num_kv_heads * d);
    for (size_t head = 0; head < shape.num_query_heads; ++head) {
      for (size_t c = 0; c < d; ++c) {
        pooled_[head / group * d + c] += query[head * d + c] / static_cast<float>(group);
      }
    }
    for (uint32_t block = 0; block < split_.blocks(); ++block) scores_.push_back(Score(block));
  }

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
  double Score(uint32_t block) const {
    const float* const key = layer_.block_keys.data() + block * pooled_.size();
    double sum = 0;
    for (size_t c = 0; c < pooled_.size(); ++c) sum += double{pooled_[c]} * key[c];
    return sum;
  }

  const BlockSplit split_;
  const LayerStatistics& layer_;
  std::vector<float> pooled_;   ///< [n_kv][d]
  std::vector<double> scores_;  ///< [blocks]
};

class Selection {
 public:
  Selection(std::span<const DocumentStatistics* const> documents,
            std::span<const std::vector<float>> question, const SamKvShape& shape)
      : documents_(documents), question_(question), shape_(shape) {}

  /// Scores of `document`, which has middle blocks, in `layer`.
  LayerScores Scores(uint32_t layer, size_t document) const {
    std::vector<float> local;
    for (const DocumentStatistics* one : documents_) {
      const std::vector<float>& query = one->layers[layer].local_query;
      local.insert(local.end(), query.begin(), query.end());
    }
    const std::vector<float> query = PersonalisedQuery(question_[layer], local, document);
    return {*documents_[document], documents_[document]->layers[layer], query, shape_};
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
  const std::span<const std::vector<float>> question_;
  const SamKvShape& shape_;
};

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

SelectedBlocks SelectBlocks(std::span<const DocumentStatistics* const> documents,
                            std::span<const std::vector<float>> question, const SamKvShape& shape,
                            const SamKvOptions& options) {
  SamKvOptions resolved = options;
  if (resolved.stable_layers.empty()) resolved.stable_layers = LastEighth(shape.num_layers);
  const Selection selection(documents, question, shape);
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
