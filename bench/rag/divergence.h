// SPDX-License-Identifier: Apache-2.0
//
// Divergence of one distribution from another, both given as logits. Pure functions.
#ifndef QUIRE_BENCH_RAG_DIVERGENCE_H_
#define QUIRE_BENCH_RAG_DIVERGENCE_H_

#include <algorithm>
#include <cmath>
#include <span>

namespace quire::bench {

/// The logarithm of the sum of exponentials.
inline double LogSumExp(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

/// KL(of `full` || of `other`), in nats. REQUIRES: equal sizes, above 0.
inline double Divergence(std::span<const float> full, std::span<const float> other) {
  const double full_norm = LogSumExp(full);
  const double other_norm = LogSumExp(other);
  double sum = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    const double log_full = full[i] - full_norm;
    sum += std::exp(log_full) * (log_full - (other[i] - other_norm));
  }
  return std::max(0.0, sum);
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAG_DIVERGENCE_H_
