// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/infllm.h"

#include <algorithm>
#include <numeric>

namespace quire::worker {
namespace {

/// Sums of the queries of each group of heads, [n_kv][d].
std::vector<float> SumOverGroups(std::span<const float> query, const SamKvShape& shape) {
  const size_t d = shape.head_dim;
  const size_t group = shape.num_query_heads / shape.num_kv_heads;
  std::vector<float> sums(shape.num_kv_heads * d);
  for (size_t head = 0; head < shape.num_query_heads; ++head) {
    for (size_t c = 0; c < d; ++c) sums[head / group * d + c] += query[head * d + c];
  }
  return sums;
}

/// The `quota` middle blocks with the largest inner products, ascending.
std::vector<uint32_t> Best(const LayerStatistics& layer, uint32_t middle_blocks,
                           std::span<const float> query, uint32_t quota) {
  std::vector<double> scores(middle_blocks);
  for (size_t block = 0; block < scores.size(); ++block) {
    const float* const key = layer.representative_keys.data() + block * query.size();
    scores[block] = std::inner_product(query.begin(), query.end(), key, 0.0);
  }
  std::vector<uint32_t> order(middle_blocks);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(quota, middle_blocks));
  for (uint32_t& block : order) ++block;  // The first block is no middle one.
  std::ranges::sort(order);
  return order;
}

}  // namespace

SelectedBlocks SelectInfLlmBlocks(std::span<const DocumentStatistics* const> documents,
                                  std::span<const std::vector<float>> question,
                                  const SamKvShape& shape, const InfLlmOptions& options) {
  SelectedBlocks selected(shape.num_layers);
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::vector<float> query = SumOverGroups(question[layer], shape);
    for (const DocumentStatistics* const document : documents) {
      selected[layer].push_back(
          Best(document->layers[layer], document->split.middle_blocks(), query, options.blocks));
    }
  }
  return selected;
}

}  // namespace quire::worker
