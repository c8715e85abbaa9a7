// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/exact_attention.h"

#include <algorithm>
#include <cmath>

#include "gpuworker/retrieval/keys/host_keys.h"

namespace quire::bench {
namespace {

/// Weights below this add nothing to an output in float.
constexpr float kNothing = 1e-10f;

/// The softmax of `logits` as weights; weights below kNothing become 0.
void Weigh(std::span<const float> logits, ExactAttention::Head* head) {
  head->highest = *std::ranges::max_element(logits);
  head->weights.resize(logits.size());
  head->total = 0;
  for (size_t token = 0; token < logits.size(); ++token) {
    const float below = logits[token] - head->highest;
    head->weights[token] = below < -30 ? 0 : std::exp(below);
    head->total += head->weights[token];
  }
  for (float& weight : head->weights) {
    weight = static_cast<float>(weight / head->total);
    if (weight < kNothing) weight = 0;
  }
}

/// Computes each page's attention and contribution, and the output.
void SumPages(const PagedRows& rows, uint32_t kv_head, ExactAttention::Head* head) {
  const size_t p = rows.spec().page_tokens, d = rows.spec().head_dim;
  head->masses.assign(rows.num_pages(), 0);
  head->parts.assign(rows.num_pages() * d, 0);
  head->out.assign(d, 0);
  for (size_t token = 0; token < head->weights.size(); ++token) {
    const float weight = head->weights[token];
    if (weight == 0) continue;
    head->masses[token / p] += weight;
    const float* const value = rows.value(kv_head, token).data();
    float* const part = head->parts.data() + token / p * d;
    for (size_t c = 0; c < d; ++c) part[c] += weight * value[c];
  }
  for (size_t page = 0; page < head->masses.size(); ++page) {
    if (head->masses[page] == 0) continue;
    for (size_t c = 0; c < d; ++c) head->out[c] += head->parts[page * d + c];
  }
}

}  // namespace

Status ExactAttention::Compute(const PagedRows& rows, uint64_t tokens,
                               std::span<const float> queries, float scale) {
  const KvSpec& spec = rows.spec();
  group_ = spec.group_size();
  tokens_ = tokens;
  heads_.resize(spec.num_query_heads);
  scores_.resize(size_t{group_} * tokens);
  const size_t group_values = size_t{group_} * spec.head_dim;
  for (uint32_t kv_head = 0; kv_head < spec.num_kv_heads; ++kv_head) {
    const auto of_group = queries.subspan(kv_head * group_values, group_values);
    QUIRE_RETURN_IF_ERROR(rows.Scores(kv_head, of_group, tokens, scale, scores_));
    for (uint32_t i = 0; i < group_; ++i) {
      Head& head = heads_[size_t{kv_head} * group_ + i];
      Weigh(std::span(scores_).subspan(i * tokens, tokens), &head);
      SumPages(rows, kv_head, &head);
    }
  }
  return OkStatus();
}

std::vector<uint32_t> ExactAttention::BestPages(uint32_t kv_head, worker::PageRange candidates,
                                                uint32_t count) const {
  std::vector<float> sums(candidates.size());
  for (uint32_t a = kv_head * group_; a < (kv_head + 1) * group_; ++a) {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += static_cast<float>(heads_[a].masses[candidates.first + i]);
    }
  }
  return worker::BestPages(sums, candidates.first, count);
}

}  // namespace quire::bench
