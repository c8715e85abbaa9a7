// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/key_clusters.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "gpuworker/retrieval/host_keys.h"

namespace quire::worker {
namespace {

/// Scales to length 1; a vector of length 0 stays.
void Normalise(std::span<float> vector) {
  const float length = std::sqrt(Dot(vector, vector));
  if (length == 0) return;
  for (float& value : vector) value /= length;
}

/// The cluster of each key: the centroid of highest product, the first of equal ones.
std::vector<uint32_t> Assign(std::span<const float> keys, std::span<const float> centroids,
                             size_t d) {
  std::vector<uint32_t> clusters(keys.size() / d);
  for (size_t token = 0; token < clusters.size(); ++token) {
    float best = 0;
    for (size_t cluster = 0; cluster < centroids.size() / d; ++cluster) {
      const float score = Dot(keys.subspan(token * d, d), centroids.subspan(cluster * d, d));
      if (cluster > 0 && score <= best) continue;
      best = score;
      clusters[token] = static_cast<uint32_t>(cluster);
    }
  }
  return clusters;
}

}  // namespace

void KeyClusters::Add(std::span<const float> keys, uint32_t first_page, uint32_t page_tokens,
                      uint32_t count, uint32_t iterations) {
  const size_t d = head_dim_, tokens = keys.size() / d;
  count = static_cast<uint32_t>(std::min<size_t>(count, tokens));
  if (count == 0) return;
  std::vector<float> directions(keys.begin(), keys.end());
  for (size_t t = 0; t < tokens; ++t) Normalise(std::span(directions).subspan(t * d, d));
  std::vector<float> centroids;
  for (uint32_t i = 0; i < count; ++i) {
    const auto start = std::span(directions).subspan(i * tokens / count * d, d);
    centroids.insert(centroids.end(), start.begin(), start.end());
  }
  std::vector<uint32_t> clusters;
  for (uint32_t i = 0; i < iterations; ++i) {
    std::vector<uint32_t> next = Assign(directions, centroids, d);
    if (next == clusters) break;
    clusters.swap(next);
    std::vector<float> sums(centroids.size());
    for (size_t t = 0; t < tokens; ++t) {
      AddTo(std::span(directions).subspan(t * d, d), std::span(sums).subspan(clusters[t] * d, d));
    }
    for (uint32_t c = 0; c < count; ++c) {
      const auto sum = std::span(sums).subspan(c * d, d);
      if (Dot(sum, sum) == 0) continue;  // Empty: it stays where it is.
      Normalise(sum);
      std::ranges::copy(sum, centroids.begin() + static_cast<ptrdiff_t>(c * d));
    }
  }
  std::vector<std::map<uint32_t, uint32_t>> counts(count);  // Page -> keys.
  for (size_t t = 0; t < tokens; ++t) {
    ++counts[clusters[t]][first_page + static_cast<uint32_t>(t / page_tokens)];
  }
  for (const auto& pages : counts) {
    std::vector<std::pair<uint32_t, uint32_t>> order(pages.begin(), pages.end());
    std::ranges::stable_sort(order, std::greater<>(),
                             [](const auto& entry) { return entry.second; });
    std::vector<uint32_t>& list = pages_.emplace_back();
    for (const auto& entry : order) list.push_back(entry.first);
  }
  centroids_.insert(centroids_.end(), centroids.begin(), centroids.end());
}

}  // namespace quire::worker
