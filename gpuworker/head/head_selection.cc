// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/head_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace quire::worker {
namespace {

constexpr float kLast = -std::numeric_limits<float>::infinity();

/// Numbers compare as they are, others come last.
float Ranked(float weight) { return std::isnan(weight) ? kLast : weight; }

/// Raises `to` to `from`, place by place.
void Raise(std::span<const float> from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], Ranked(from[i]));
}

}  // namespace

std::vector<float> GroupWeights(std::span<const float> weights, uint32_t draft_query_heads,
                                uint32_t draft_kv_heads, uint32_t num_kv_heads) {
  const size_t length = weights.size() / draft_query_heads;
  const bool merge = draft_kv_heads % num_kv_heads == 0;
  const bool repeat = num_kv_heads % draft_kv_heads == 0;
  // Sets of weights that are made; each serves as many KV heads of the model.
  const uint32_t sets = merge ? num_kv_heads : repeat ? draft_kv_heads : 1;
  const uint32_t heads_of_set = draft_query_heads / sets;
  std::vector<float> made(sets * length, kLast);
  for (uint32_t head = 0; head < draft_query_heads; ++head) {
    Raise(weights.subspan(head * length, length),
          std::span(made).subspan(head / heads_of_set * length, length));
  }
  std::vector<float> groups;
  groups.reserve(num_kv_heads * length);
  for (uint32_t head = 0; head < num_kv_heads; ++head) {
    const auto set = made.begin() + static_cast<ptrdiff_t>(head / (num_kv_heads / sets) * length);
    groups.insert(groups.end(), set, set + static_cast<ptrdiff_t>(length));
  }
  return groups;
}

std::vector<uint32_t> SelectPlaces(std::span<const float> weights, const HeadBudget& budget) {
  const uint64_t length = weights.size();
  const uint64_t first = std::min(budget.sinks, length);
  const uint64_t end = length - std::min(budget.window, length - first);
  std::vector<uint32_t> selected(length);
  std::iota(selected.begin(), selected.end(), 0);
  if (budget.budget >= length) return selected;
  const uint64_t fixed = first + (length - end);
  const uint64_t chosen = budget.budget > fixed ? budget.budget - fixed : 0;
  const auto middle = selected.begin() + static_cast<ptrdiff_t>(first);
  const auto last = selected.begin() + static_cast<ptrdiff_t>(end);
  const auto cut = middle + static_cast<ptrdiff_t>(chosen);
  std::nth_element(middle, cut, last, [&](uint32_t a, uint32_t b) {
    const float x = Ranked(weights[a]), y = Ranked(weights[b]);
    return x != y ? x > y : a < b;
  });
  selected.erase(cut, last);
  std::sort(selected.begin(), selected.end());
  return selected;
}

std::vector<float> PageWeights(std::span<const float> weights, uint32_t page_tokens) {
  std::vector<float> pages((weights.size() + page_tokens - 1) / page_tokens, kLast);
  for (size_t i = 0; i < weights.size(); ++i) {
    float& page = pages[i / page_tokens];
    page = std::max(page, Ranked(weights[i]));
  }
  return pages;
}

}  // namespace quire::worker
