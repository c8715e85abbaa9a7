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
      : spec_(spec), layout_(layout), layers_(spec.num_layers) {}

  /// Dense until told otherwise: documents are read densely.
  void set_sparse(bool sparse) { sparse_ = sparse; }

  Status Attend(const LayerStep& step) override {
    Layer& layer = layers_[step.layer];
    const size_t kv = size_t{spec_.num_kv_heads} * spec_.head_dim;
    const size_t q = size_t{spec_.num_query_heads} * spec_.head_dim;
    for (uint32_t i = 0; i < step.num_tokens; ++i) {
      layer.k.insert(layer.k.end(), step.k + i * kv, step.k + (i + 1) * kv);
      layer.v.insert(layer.v.end(), step.v + i * kv, step.v + (i + 1) * kv);
      ++layer.tokens;
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        AttendHead(layer, head, step.q + i * q, step.out + i * q);
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

  const float* Row(const std::vector<float>& rows, uint64_t token, uint32_t head) const {
    return rows.data() + (token * spec_.num_kv_heads + head) * spec_.head_dim;
  }

  double Bound(const Layer& layer, uint32_t head, uint64_t page, const float* q) const {
    double bound = 0;
    for (uint32_t c = 0; c < spec_.head_dim; ++c) {
      double best = -std::numeric_limits<double>::infinity();
      for (uint32_t t = 0; t < spec_.page_tokens; ++t) {
        best = std::max(best, double{q[c]} * Row(layer.k, page * spec_.page_tokens + t, head)[c]);
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
      const float* row = q + (head * spec_.group_size() + a) * spec_.head_dim;
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
      const size_t at = (size_t{head} * spec_.group_size() + a) * spec_.head_dim;
      std::vector<double> sum(spec_.head_dim, 0);
      double total = 0;
      for (uint64_t token = 0; token < layer.tokens; ++token) {
        const uint64_t page = token / spec_.page_tokens;
        if (choose && page >= layout_.sink_pages && page < window && !selected.contains(page)) {
          continue;
        }
        double dot = 0;
        for (uint32_t c = 0; c < spec_.head_dim; ++c) {
          dot += double{q[at + c]} * Row(layer.k, token, head)[c];
        }
        const double weight = std::exp(dot / std::sqrt(double{1} * spec_.head_dim));
        total += weight;
        for (uint32_t c = 0; c < spec_.head_dim; ++c) {
          sum[c] += weight * Row(layer.v, token, head)[c];
        }
      }
      for (uint32_t c = 0; c < spec_.head_dim; ++c) {
        out[at + c] = static_cast<float>(sum[c] / total);
      }
    }
  }

  const KvSpec spec_;
  const CacheLayout layout_;
  bool sparse_ = false;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_REFERENCE_ATTENTION_H_
