// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/keys/host_keys.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "common/page/layout.h"

namespace quire::worker {
namespace {

/// The first `count` indices of BestFirst.
std::vector<uint32_t> FirstOf(std::span<const float> scores, size_t count) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto end = order.begin() + static_cast<ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](uint32_t a, uint32_t b) {
    if (std::isnan(scores[a]) != std::isnan(scores[b])) return std::isnan(scores[b]);
    if (scores[a] != scores[b] && !std::isnan(scores[a])) return scores[a] > scores[b];
    return a < b;
  });
  order.erase(end, order.end());
  return order;
}

}  // namespace

StatusOr<std::vector<float>> ReadKeys(const KvSpec& spec, Device* device, const void* units) {
  const uint64_t unit_bytes = UnitBytes(spec);
  std::vector<std::byte> bytes(spec.num_kv_heads * unit_bytes);
  QUIRE_RETURN_IF_ERROR(device->CopyToHost(bytes.data(), units, bytes.size()));
  const size_t values = size_t{spec.page_tokens} * spec.head_dim;
  std::vector<float> keys;
  keys.reserve(spec.num_kv_heads * values);
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    for (size_t i = 0; i < values; ++i) {
      keys.push_back(
          LoadElement(bytes.data() + head * unit_bytes, static_cast<int64_t>(i), spec.dtype));
    }
  }
  return keys;
}

StatusOr<std::vector<float>> ReadQuery(const KvSpec& spec, Device* device, const float* q) {
  std::vector<float> query(size_t{spec.num_query_heads} * spec.head_dim);
  QUIRE_RETURN_IF_ERROR(device->CopyToHost(query.data(), q, query.size() * sizeof(float)));
  return query;
}

float Dot(std::span<const float> a, std::span<const float> b) {
  const size_t whole = a.size() / 4 * 4;
  float sums[4] = {};
  for (size_t i = 0; i < whole; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (size_t i = whole; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void AddTo(std::span<const float> a, std::span<float> sum) {
  for (size_t i = 0; i < a.size(); ++i) sum[i] += a[i];
}

uint64_t CountNan(std::span<const float> scores) {
  return static_cast<uint64_t>(
      std::ranges::count_if(scores, [](float score) { return std::isnan(score); }));
}

std::vector<uint32_t> BestFirst(std::span<const float> scores) {
  return FirstOf(scores, scores.size());
}

std::vector<uint32_t> BestPages(std::span<const float> weights, uint32_t first, uint32_t count) {
  std::vector<uint32_t> pages = FirstOf(weights, count);
  std::sort(pages.begin(), pages.end());
  for (uint32_t& page : pages) page += first;
  return pages;
}

}  // namespace quire::worker
