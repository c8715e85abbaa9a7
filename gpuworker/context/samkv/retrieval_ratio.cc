// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/samkv/retrieval_ratio.h"

#include <cmath>
#include <numeric>

namespace quire::worker {
namespace {

double Dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double Cosine(std::span<const float> a, std::span<const float> b) {
  const double lengths = std::sqrt(Dot(a, a)) * std::sqrt(Dot(b, b));
  return lengths == 0 ? 0 : Dot(a, b) / lengths;
}

}  // namespace

std::vector<float> PersonalisedQuery(std::span<const float> query,
                                     std::span<const float> local_queries, size_t document) {
  std::vector<double> sum(query.begin(), query.end());
  const size_t documents = query.empty() ? 0 : local_queries.size() / query.size();
  for (size_t other = 0; other < documents; ++other) {
    if (other == document) continue;
    const auto local = local_queries.subspan(other * query.size(), query.size());
    const double weight = std::abs(Cosine(query, local)) / static_cast<double>(documents - 1);
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += weight * local[c];
  }
  return {sum.begin(), sum.end()};
}

double LayerRatio(const BlockScores& scores, WeakAnchor weak_anchor) {
  if (!(scores.anchor <= scores.most)) return 0;
  if (scores.anchor <= scores.least) return weak_anchor == WeakAnchor::kSaturate ? 1 : 0;
  const double ratio = (scores.most - scores.anchor) / (scores.most - scores.least);
  return std::isnan(ratio) ? 0 : ratio;
}

double RetrievalRatio(std::span<const BlockScores> layers, WeakAnchor weak_anchor) {
  if (layers.empty()) return 0;
  double sum = 0;
  for (const BlockScores& scores : layers) sum += LayerRatio(scores, weak_anchor);
  return sum / static_cast<double>(layers.size());
}

}  // namespace quire::worker
