// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/layer_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

#include "gpuworker/context/statistics/pauta.h"
#include "gpuworker/context/statistics/power_law.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

constexpr size_t kLeastQueries = 16;  ///< Later queries that a representative needs.

/// Rows of one head of [rows][heads][d], one after the other and times `scale`.
std::vector<float> HeadRows(const float* rows, size_t count, size_t heads, size_t head, size_t d,
                            float scale) {
  std::vector<float> of_head(count * d);
  for (size_t row = 0; row < count; ++row) {
    const float* const from = rows + (row * heads + head) * d;
    std::transform(from, from + d, of_head.begin() + row * d, [=](float x) { return x * scale; });
  }
  return of_head;
}

/// Adds `share` of the softmax of `scores` to `sum`. `weights` has room for as many.
void AddSoftmax(std::span<const float> scores, float share, float* weights, float* sum) {
  (void)kernels::CpuKernels().pool({.scores = scores.data(),
                                    .pooled = weights,
                                    .n_q = 1,
                                    .n_kv = 1,
                                    .n_pages = static_cast<int64_t>(scores.size())});
  for (size_t i = 0; i < scores.size(); ++i) sum[i] += share * weights[i];
}

/// Attention of some queries, the mean over heads.
class AttentionMap {
 public:
  AttentionMap(const PrefilledLayer& layer, uint32_t tokens, std::span<const uint32_t> queries)
      : layer_(layer), tokens_(tokens), queries_(queries) {
    weights_.resize(tokens);
    attention_.resize(queries.size() * tokens);
    const uint32_t group = layer.num_query_heads / layer.num_kv_heads;
    for (uint32_t kv_head = 0; kv_head < layer.num_kv_heads; ++kv_head) {
      const std::vector<float> keys =
          HeadRows(layer.keys, tokens, layer.num_kv_heads, kv_head, layer.head_dim, 1);
      for (uint32_t i = 0; i < group; ++i) AddHead(kv_head * group + i, keys);
    }
  }

  /// Attention to `token` from later queries, by distance.
  std::vector<DistantAttention> To(uint32_t token) const {
    std::vector<DistantAttention> points;
    const auto later = std::ranges::upper_bound(queries_, token);
    points.reserve(queries_.end() - later);
    for (auto query = later; query != queries_.end(); ++query) {
      const size_t row = query - queries_.begin();
      points.push_back({*query - token, attention_[row * tokens_ + token]});
    }
    return points;
  }

 private:
  /// Queries whose scores are computed at a time.
  static constexpr size_t kBlockQueries = 64;

  void AddHead(uint32_t head, const std::vector<float>& keys) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(layer_.head_dim));
    const std::vector<float> rows = HeadRows(layer_.sampled_queries, queries_.size(),
                                             layer_.num_query_heads, head, layer_.head_dim, scale);
    for (size_t at = 0; at < queries_.size(); at += kBlockQueries) {
      AddQueries(at, std::min(kBlockQueries, queries_.size() - at), rows, keys);
    }
  }

  /// Queries from `first` on. No query of the block sees more keys than its last one.
  void AddQueries(size_t first, size_t count, const std::vector<float>& queries,
                  const std::vector<float>& keys) {
    const size_t seen = queries_[first + count - 1] + 1;
    scores_.resize(count * seen);
    (void)kernels::CpuKernels().matmul({.x = queries.data() + first * layer_.head_dim,
                                        .weight = keys.data(),
                                        .y = scores_.data(),
                                        .rows = static_cast<int64_t>(count),
                                        .in = layer_.head_dim,
                                        .out = static_cast<int64_t>(seen)});
    const float share = 1.0f / static_cast<float>(layer_.num_query_heads);
    for (size_t i = 0; i < count; ++i) {
      AddSoftmax(std::span(scores_).subspan(i * seen, queries_[first + i] + 1), share,
                 weights_.data(), attention_.data() + (first + i) * tokens_);
    }
  }

  const PrefilledLayer& layer_;
  const uint32_t tokens_;
  const std::span<const uint32_t> queries_;  ///< Tokens, ascending.
  std::vector<float> scores_;                ///< [queries of a block][keys that they see]
  std::vector<float> weights_;               ///< [tokens], of one head and query
  std::vector<float> attention_;             ///< [queries][tokens]
};

double MeanAttention(std::span<const DistantAttention> points) {
  double sum = 0;
  for (const DistantAttention& point : points) sum += point.attention;
  return points.empty() ? 0 : sum / static_cast<double>(points.size());
}

/// Means of the rows [begin, end), each of `floats`.
void MeanOf(const float* rows, uint32_t begin, uint32_t end, size_t floats, float* mean) {
  std::vector<double> sum(floats);
  for (size_t row = begin; row < end; ++row) {
    for (size_t c = 0; c < floats; ++c) sum[c] += rows[row * floats + c];
  }
  for (size_t c = 0; c < floats; ++c) mean[c] = static_cast<float>(sum[c] / (end - begin));
}

/// Appends the mean of the keys, [tokens][floats], of the block's tokens that are attended to most.
/// `attention` has one entry for each token of the block, which begins at `begin`.
void AppendRepresentative(const std::vector<float>& attention, uint32_t begin, const float* keys,
                          size_t floats, std::vector<float>* means) {
  std::vector<uint32_t> order(attention.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t count = std::min<size_t>(kRepresentatives, order.size());
  std::ranges::partial_sort(order, order.begin() + count, [&](uint32_t a, uint32_t b) {
    return std::tuple(-attention[a], a) < std::tuple(-attention[b], b);
  });
  const size_t at = means->size();
  means->resize(at + floats);
  for (const uint32_t token : std::span(order).first(count)) {
    const float* const key = keys + size_t{begin + token} * floats;
    for (size_t c = 0; c < floats; ++c) (*means)[at + c] += key[c] / static_cast<float>(count);
  }
}

/// Exponents of the middle tokens, and what their blocks are worth. `keys` [tokens][floats] are
/// without rotation.
void RateMiddle(const AttentionMap& map, const BlockSplit& split, const float* keys, size_t floats,
                LayerStatistics* statistics) {
  std::vector<double> exponents;
  std::vector<uint32_t> tokens;
  for (uint32_t block = 1; block <= split.middle_blocks(); ++block) {
    BlockImportance best{std::numeric_limits<double>::infinity(), -1};
    std::vector<float> attentions;
    for (uint32_t token = split.Begin(block); token < split.End(block); ++token) {
      const std::vector<DistantAttention> points = map.To(token);
      const double exponent = FitPowerLaw(points).exponent;
      exponents.push_back(exponent);
      tokens.push_back(token);
      const double attention = MeanAttention(points);
      attentions.push_back(static_cast<float>(attention));
      if (points.size() >= kLeastQueries && attention > best.attention) {
        best = {exponent, attention};
      }
    }
    statistics->middle.push_back({best.exponent, std::max(best.attention, 0.0)});
    AppendRepresentative(attentions, split.Begin(block), keys, floats,
                         &statistics->representative_keys);
  }
  for (const size_t outlier : PautaOutliers(exponents)) {
    statistics->outlier_tokens.push_back(tokens[outlier]);
  }
}

}  // namespace

void Unrotate(float* vectors, uint32_t rows, uint32_t heads, uint32_t head_dim,
              uint64_t first_position, bool interleaved, const RopeRotation& rope) {
  const size_t pairs = rope.inverse_frequencies().size();
  const size_t step = interleaved ? 2 : 1;       // From one pair to the next.
  const size_t other = interleaved ? 1 : pairs;  // From a pair's first channel to its second.
  std::vector<float> cosines(pairs);
  std::vector<float> sines(pairs);
  for (uint32_t row = 0; row < rows; ++row) {
    rope.FillMove(-static_cast<int64_t>(first_position + row), cosines.data(), sines.data());
    for (uint32_t head = 0; head < heads; ++head) {
      float* const x = vectors + (size_t{row} * heads + head) * head_dim;
      for (size_t i = 0; i < pairs; ++i) {
        float& a = x[i * step];
        float& b = x[i * step + other];
        const float turned = a * cosines[i] - b * sines[i];
        b = b * cosines[i] + a * sines[i];
        a = turned;
      }
    }
  }
}

void RankMiddle(LayerStatistics* statistics) {
  const auto& middle = statistics->middle;
  if (middle.empty()) return;
  const auto most = std::ranges::min_element(middle, {}, &BlockImportance::exponent);
  const auto least = std::ranges::min_element(middle, {}, &BlockImportance::attention);
  statistics->most = 1 + static_cast<uint32_t>(most - middle.begin());
  statistics->least = 1 + static_cast<uint32_t>(least - middle.begin());
}

std::vector<uint32_t> SampledTokens(uint32_t tokens, uint32_t max_queries) {
  const uint32_t count = std::min(tokens, max_queries);
  std::vector<uint32_t> sampled;
  for (uint32_t i = 1; i <= count; ++i) {
    sampled.push_back(static_cast<uint32_t>(uint64_t{i} * tokens / count) - 1);
  }
  return sampled;
}

LayerStatistics StatisticsOf(const PrefilledLayer& layer, const BlockSplit& split,
                             std::span<const uint32_t> sampled_tokens, const RopeRotation& rope) {
  LayerStatistics statistics;
  const size_t key_floats = size_t{layer.num_kv_heads} * layer.head_dim;
  const size_t query_floats = size_t{layer.num_query_heads} * layer.head_dim;
  std::vector<float> keys(layer.keys, layer.keys + split.tokens * key_floats);
  Unrotate(keys.data(), split.tokens, layer.num_kv_heads, layer.head_dim, layer.first_position,
           layer.interleaved, rope);
  const uint32_t local = split.LocalBegin();
  const uint32_t local_tokens = split.tokens - local;
  std::vector<float> queries(layer.local_queries,
                             layer.local_queries + local_tokens * query_floats);
  Unrotate(queries.data(), local_tokens, layer.num_query_heads, layer.head_dim,
           layer.first_position + local, layer.interleaved, rope);
  statistics.local_query.resize(query_floats);
  MeanOf(queries.data(), 0, local_tokens, query_floats, statistics.local_query.data());

  if (!split.has_middle()) return statistics;
  RateMiddle(AttentionMap(layer, split.tokens, sampled_tokens), split, keys.data(), key_floats,
             &statistics);
  RankMiddle(&statistics);
  return statistics;
}

}  // namespace quire::worker
