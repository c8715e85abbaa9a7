// SPDX-License-Identifier: Apache-2.0
//
// LowRankKeys: rows of keys of all KV heads together, kept as coefficients in a few directions. The
// directions are the leading right singular vectors of the matrix of rows, found by subspace
// iteration. The same rows give the same result. Thread-safety: immutable once fitted.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_KEYS_LOW_RANK_KEYS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_KEYS_LOW_RANK_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire::worker {

class LowRankKeys {
 public:
  /// `rows` is [n][width]; 1 <= rank <= width.
  LowRankKeys(std::span<const float> rows, uint32_t width, uint32_t rank);

  size_t num_rows() const { return coefficients_.size() / rank_; }
  /// Channels [first_channel, first_channel + channels) of the rows from `first_row` on, rebuilt:
  /// `out` is [rows][channels].
  void Rebuild(size_t first_row, size_t first_channel, size_t channels, std::span<float> out) const;

 private:
  const uint32_t rank_;
  std::vector<float> basis_;         ///< [width][rank], its columns orthonormal
  std::vector<float> coefficients_;  ///< [n][rank]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_KEYS_LOW_RANK_KEYS_H_
