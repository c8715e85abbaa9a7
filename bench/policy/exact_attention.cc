// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/exact_attention.h"

#include <algorithm>
#include <cmath>

#include "bench/stream/vectors.h"
#include "gpuworker/retrieval/host_keys.h"

namespace quire::bench {
namespace {

/// Weights below this add nothing to an output in float.
constexpr float kNothing = 1e-10f;

void ComputeHead(const PagedRows& rows, uint32_t kv_head, std::span<const float> query, float scale,
                 ExactAttention::Head* head) {
  for (size_t token = 0; token < head->weights.size(); ++token) {
    head->weights[token] = scale * Dot(rows.key(kv_head, token), query);
  }
  head->highest = *std::ranges::max_element(head->weights);
  head->total = 0;
  for (float& weight : head->weights) {
    const float below = weight - head->highest;
    weight = below < -30 ? 0 : std::exp(below);
    head->total += weight;
  }
  head->out.assign(query.size(), 0);
  for (size_t token = 0; token < head->weights.size(); ++token) {
    float& weight = head->weights[token];
    weight = static_cast<float>(weight / head->total);
    if (weight < kNothing) continue;
    head->masses[token / rows.spec().page_tokens] += weight;
    const std::span<const float> value = rows.value(kv_head, token);
    for (size_t c = 0; c < value.size(); ++c) head->out[c] += double{weight} * value[c];
  }
}

}  // namespace

void ExactAttention::Compute(const PagedRows& rows, uint64_t tokens, std::span<const float> queries,
                             float scale) {
  const KvSpec& spec = rows.spec();
  group_ = spec.group_size();
  tokens_ = tokens;
  heads_.resize(spec.num_query_heads);
  for (uint32_t a = 0; a < spec.num_query_heads; ++a) {
    heads_[a].weights.resize(tokens);
    heads_[a].masses.assign(rows.num_pages(), 0);
    ComputeHead(rows, a / group_, queries.subspan(size_t{a} * spec.head_dim, spec.head_dim), scale,
                &heads_[a]);
  }
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
