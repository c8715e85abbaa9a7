// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/keys/key_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "gpuworker/device/device.h"
#include "gpuworker/retrieval/keys/host_keys.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

/// Assign has found no cluster.
constexpr uint32_t kNone = UINT32_MAX;

/// Scales to length 1; a vector of length 0 stays.
void Normalise(std::span<float> vector) {
  const float length = std::sqrt(Dot(vector, vector));
  if (length == 0) return;
  for (float& value : vector) value /= length;
}

/// The cluster of each key: the centroid with the highest product, the first of equal ones. kNone
/// for keys with NaN.
StatusOr<std::vector<uint32_t>> Assign(std::span<const float> keys,
                                       std::span<const float> centroids, size_t d) {
  constexpr size_t kBlock = 256;  // Keys at a time, so that their products stay in the cache.
  const size_t count = centroids.size() / d;
  std::vector<uint32_t> clusters(keys.size() / d);
  std::vector<float> products(kBlock * count);
  for (size_t first = 0; first < clusters.size(); first += kBlock) {
    const size_t rows = std::min(kBlock, clusters.size() - first);
    const kernels::OpStatus status =
        kernels::CpuKernels().matmul({.x = keys.data() + first * d,
                                      .weight = centroids.data(),
                                      .y = products.data(),
                                      .rows = static_cast<int64_t>(rows),
                                      .in = static_cast<int64_t>(d),
                                      .out = static_cast<int64_t>(count)});
    QUIRE_RETURN_IF_ERROR(ToStatus(status, "matmul"));
    for (size_t row = 0; row < rows; ++row) {
      const auto of_key = std::span(products).subspan(row * count, count);
      clusters[first + row] =
          std::isnan(of_key.front())
              ? kNone
              : static_cast<uint32_t>(std::ranges::max_element(of_key) - of_key.begin());
    }
  }
  return clusters;
}

}  // namespace

Status KeyClusters::Add(std::span<const float> keys, uint32_t first_page, uint32_t page_tokens,
                        uint32_t count, uint32_t iterations) {
  const size_t d = head_dim_, tokens = keys.size() / d;
  std::vector<float> directions(keys.begin(), keys.end());
  std::vector<uint32_t> numbers;  // Tokens whose key is one.
  for (uint32_t t = 0; t < tokens; ++t) {
    const auto direction = std::span(directions).subspan(t * d, d);
    Normalise(direction);
    if (std::isfinite(Dot(direction, direction))) numbers.push_back(t);
  }
  count = static_cast<uint32_t>(std::min<size_t>(count, numbers.size()));
  std::vector<float> centroids;
  for (uint32_t i = 0; i < count; ++i) {
    const auto start = std::span(directions).subspan(numbers[i * numbers.size() / count] * d, d);
    centroids.insert(centroids.end(), start.begin(), start.end());
  }
  std::vector<uint32_t> clusters(tokens, kNone);
  for (uint32_t i = 0; i < iterations && count > 0; ++i) {
    QUIRE_ASSIGN_OR_RETURN(std::vector<uint32_t> next, Assign(directions, centroids, d));
    if (next == clusters) break;
    clusters.swap(next);
    std::vector<float> sums(centroids.size());
    for (const uint32_t t : numbers) {
      AddTo(std::span(directions).subspan(t * d, d), std::span(sums).subspan(clusters[t] * d, d));
    }
    for (uint32_t c = 0; c < count; ++c) {
      const auto sum = std::span(sums).subspan(c * d, d);
      if (Dot(sum, sum) == 0) continue;  // Empty: it stays where it is.
      Normalise(sum);
      std::ranges::copy(sum, centroids.begin() + static_cast<ptrdiff_t>(c * d));
    }
  }
  if (numbers.size() < tokens) {
    std::ranges::replace(clusters, kNone, count++);
    centroids.resize(centroids.size() + d, std::numeric_limits<float>::quiet_NaN());
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
  return OkStatus();
}

}  // namespace quire::worker
