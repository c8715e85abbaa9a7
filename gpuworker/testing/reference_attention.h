// SPDX-License-Identifier: Apache-2.0
//
// ReferenceAttention: the expected result of a sequence, from the definition. Every K and V is in
// one list. Pages are selected by min/max bounds over all keys, softmax-mean pooling and a full
// sort. Attention is in double. Nothing that ships includes this.
#ifndef QUIRE_GPUWORKER_TESTING_REFERENCE_ATTENTION_H_
#define QUIRE_GPUWORKER_TESTING_REFERENCE_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/model/decoder.h"
#include "quire/kv_spec.h"

namespace quire::worker::testing {

class ReferenceAttention final : public AttentionBackend {
 public:
  /// `layout` of every layer; see set_sparse.
  ReferenceAttention(const KvSpec& spec, const CacheLayout& layout)
      : spec_(spec),
        d_(spec.key_dim()),
        value_d_(spec.value_dim()),
        layout_(layout),
        layers_(spec.num_layers) {}

  /// Dense until told otherwise: documents are read densely.
  void set_sparse(bool sparse) { sparse_ = sparse; }

  Status Attend(const LayerStep& step) override {
    Layer& layer = layers_[step.layer];
    const size_t k = size_t{spec_.num_kv_heads} * d_, v = size_t{spec_.num_kv_heads} * value_d_;
    const size_t q = size_t{spec_.num_query_heads} * d_;
    const size_t out = size_t{spec_.num_query_heads} * value_d_;
    const float* const values = spec_.has_values() ? step.v : step.k;
    const size_t value_row = spec_.has_values() ? v : k;
    for (uint32_t i = 0; i < step.num_tokens; ++i) {
      layer.k.insert(layer.k.end(), step.k + i * k, step.k + (i + 1) * k);
      layer.v.insert(layer.v.end(), values + i * value_row, values + i * value_row + v);
      ++layer.tokens;
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        AttendHead(layer, head, step.q + i * q, step.out + i * out);
      }
    }
    return OkStatus();
  }

 private:
  struct Layer {
    std::vector<float> k;
    std::vector<float> v;
    uint64_t tokens = 0;
  };

  const float* Key(const Layer& layer, uint64_t token, uint32_t head) const {
    return layer.k.data() + (token * spec_.num_kv_heads + head) * d_;
  }
  const float* Value(const Layer& layer, uint64_t token, uint32_t head) const {
    return layer.v.data() + (token * spec_.num_kv_heads + head) * value_d_;
  }

  double Bound(const Layer& layer, uint32_t head, uint64_t page, const float* q) const {
    double bound = 0;
    for (uint32_t c = 0; c < d_; ++c) {
      double best = -std::numeric_limits<double>::infinity();
      for (uint32_t t = 0; t < spec_.page_tokens; ++t) {
        best = std::max(best, double{q[c]} * Key(layer, page * spec_.page_tokens + t, head)[c]);
      }
      bound += best;
    }
    return bound;
  }

  std::set<uint64_t> Select(const Layer& layer, uint32_t head, const float* q,
                            uint64_t end_page) const {
    std::vector<std::pair<double, uint64_t>> order;
    for (uint64_t page = layout_.sink_pages; page < end_page; ++page) order.push_back({0, page});
    for (uint32_t a = 0; a < spec_.group_size(); ++a) {
      const float* row = q + (head * spec_.group_size() + a) * d_;
      std::vector<double> scores;
      for (const auto& entry : order) scores.push_back(Bound(layer, head, entry.second, row));
      const double most = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (double& score : scores) total += score = std::exp(score - most);
      for (size_t i = 0; i < order.size(); ++i) order[i].first -= scores[i] / total;
    }
    std::sort(order.begin(), order.end());
    std::set<uint64_t> pages;
    for (size_t i = 0; i < order.size() && i < layout_.most_selected(); ++i) {
      pages.insert(order[i].second);
    }
    return pages;
  }

  void AttendHead(const Layer& layer, uint32_t head, const float* q, float* out) const {
    const uint64_t pages = (layer.tokens + spec_.page_tokens - 1) / spec_.page_tokens;
    const uint64_t window = pages > layout_.window_pages ? pages - layout_.window_pages : 0;
    const bool choose = sparse_ && window > layout_.sink_pages;
    const std::set<uint64_t> selected =
        choose ? Select(layer, head, q, window) : std::set<uint64_t>();
    for (uint32_t a = 0; a < spec_.group_size(); ++a) {
      const size_t row = size_t{head} * spec_.group_size() + a, at = row * d_;
      std::vector<double> sum(value_d_, 0);
      double total = 0;
      for (uint64_t token = 0; token < layer.tokens; ++token) {
        const uint64_t page = token / spec_.page_tokens;
        if (choose && page >= layout_.sink_pages && page < window && !selected.contains(page)) {
          continue;
        }
        double dot = 0;
        for (uint32_t c = 0; c < d_; ++c) {
          dot += double{q[at + c]} * Key(layer, token, head)[c];
        }
        const double weight = std::exp(dot / std::sqrt(double{1} * d_));
        total += weight;
        for (uint32_t c = 0; c < value_d_; ++c) {
          sum[c] += weight * Value(layer, token, head)[c];
        }
      }
      for (uint32_t c = 0; c < value_d_; ++c) {
        out[row * value_d_ + c] = static_cast<float>(sum[c] / total);
      }
    }
  }

  const KvSpec spec_;
  const uint32_t d_;        ///< Channels of a key.
  const uint32_t value_d_;  ///< Channels of a value.
  const CacheLayout layout_;
  bool sparse_ = false;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_REFERENCE_ATTENTION_H_
