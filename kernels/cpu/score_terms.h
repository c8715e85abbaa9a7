// SPDX-License-Identifier: Apache-2.0
//
// The sum of a score (score.h), the same for every table. Fixes the arrangement of queries as
// factors of a digest's elements, and the order of the sum.
#ifndef QUIRE_KERNELS_CPU_SCORE_TERMS_H_
#define QUIRE_KERNELS_CPU_SCORE_TERMS_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/api/score.h"

namespace quire::kernels {

/// Partial sums of a score.
inline constexpr int64_t kPartialSums = 8;

/// Two channels with a common radius in kDisc.
struct ChannelPair {
  int64_t a = 0;
  int64_t b = 0;
};
/// Pair `i` of d/2.
inline ChannelPair PairOf(int64_t i, int64_t rotary_dim, bool interleaved) {
  const int64_t half = rotary_dim / 2;
  if (interleaved || i >= half) return {2 * i, 2 * i + 1};
  return {i, i + half};
}

/// True when a radius follows the terms of a digest.
inline bool HasRadius(DigestKind kind) { return kind == DigestKind::kCentreRadius; }
/// Terms of the partial sums of one score. kMinMax multiplies one of two elements with a channel.
/// The other kinds multiply every element but a radius with a factor of its own.
inline int64_t ScoreTerms(DigestKind kind, int64_t head_dim) {
  if (kind == DigestKind::kMinMax || HasRadius(kind)) return head_dim;
  return DigestElements(kind, head_dim);
}

/// Heads whose factors are adjacent. A vector of 16 lanes holds two heads.
inline constexpr int64_t kHeadsTogether = 2;
/// Heads of a group of `group`, rounded up to pairs.
constexpr int64_t PairedHeads(int64_t group) {
  return (group + kHeadsTogether - 1) / kHeadsTogether * kHeadsTogether;
}
/// Factors of one term of each partial sum, for two heads. One cache line.
struct alignas(kHeadsTogether* kPartialSums * sizeof(float)) QueryTerms {
  float values[kHeadsTogether][kPartialSums] = {};
};

/// Queries arranged for a pass over a digest: the heads of a group are adjacent.
struct ScoreQueries {
  /// [n_kv][blocks][pairs of heads]; zeros after the last term and for a padding head
  std::vector<QueryTerms> terms;
  std::vector<float> radius;  ///< [n_q] factors of a radius; empty for kinds without one
  int64_t blocks = 0;         ///< Number of blocks of kPartialSums terms.
  int64_t group = 0;          ///< Query heads of a KV head.

  int64_t pairs() const { return PairedHeads(group) / kHeadsTogether; }
  /// Index in `terms` of the pair of query head a. Its next block is `pairs()` further.
  size_t PairAt(int64_t a, int64_t block) const {
    return static_cast<size_t>((a / group * blocks + block) * pairs() + a % group / kHeadsTogether);
  }
  /// Position of query head a in its pair.
  size_t InPair(int64_t a) const { return static_cast<size_t>(a % group % kHeadsTogether); }
};
/// Arranges the queries of `args`. REQUIRES: `args` passed Check; n_pages > 0.
ScoreQueries MakeScoreQueries(const ScoreArgs& args);

/// A sum in the order that score.h fixes.
class OrderedSum {
 public:
  /// Adds a * b as the next term.
  void Add(float a, float b) {
    float& partial = partials_[static_cast<size_t>(terms_++ % kPartialSums)];
    partial = std::fma(a, b, partial);
  }
  /// Adds a * b after all terms.
  void AddRadius(float a, float b) { radius_ = std::pair(a, b); }
  float Total() const {
    std::array<float, kPartialSums> sums = partials_;
    for (size_t distance = kPartialSums / 2; distance > 0; distance /= 2) {
      for (size_t j = 0; j < distance; ++j) sums[j] += sums[j + distance];
    }
    return radius_ ? std::fma(radius_->first, radius_->second, sums[0]) : sums[0];
  }

 private:
  std::array<float, kPartialSums> partials_ = {};
  std::optional<std::pair<float, float>> radius_;
  int64_t terms_ = 0;
};

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_SCORE_TERMS_H_
