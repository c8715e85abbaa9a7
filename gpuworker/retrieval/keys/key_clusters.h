// SPDX-License-Identifier: Apache-2.0
//
// KeyClusters: k-means by cosine over the keys of one KV head, and which pages each cluster
// touches. Starts from keys spread evenly over the tokens, so the same keys give the same clusters.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_KEYS_KEY_CLUSTERS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_KEYS_KEY_CLUSTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace quire::worker {

class KeyClusters {
 public:
  explicit KeyClusters(uint32_t head_dim) : head_dim_(head_dim) {}

  /// Clusters `keys`, [tokens][d], of whole pages of `page_tokens` from page `first_page` on, into
  /// `count` more clusters (fewer when there are fewer keys). Keys that are no numbers are one
  /// more, whose centroid is none either: it comes after all others. INTERNAL when a kernel
  /// refuses.
  [[nodiscard]] Status Add(std::span<const float> keys, uint32_t first_page, uint32_t page_tokens,
                           uint32_t count, uint32_t iterations);

  size_t size() const { return pages_.size(); }
  /// [d], of length 1 (or NaN).
  std::span<const float> centroid(size_t cluster) const {
    return std::span(centroids_).subspan(cluster * head_dim_, head_dim_);
  }
  /// Pages with keys of the cluster, those with the most first.
  std::span<const uint32_t> pages(size_t cluster) const { return pages_[cluster]; }

 private:
  uint32_t head_dim_;
  std::vector<float> centroids_;              ///< [size()][d]
  std::vector<std::vector<uint32_t>> pages_;  ///< [size()]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_KEYS_KEY_CLUSTERS_H_
