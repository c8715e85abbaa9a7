// SPDX-License-Identifier: Apache-2.0
//
// Vector arithmetic of the synthetic stream. Pure functions.
#ifndef QUIRE_BENCH_STREAM_VECTORS_H_
#define QUIRE_BENCH_STREAM_VECTORS_H_

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/random.h"

namespace quire::bench {

/// Dot product in four partial sums, which a compiler can keep in vector registers.
inline float Dot(std::span<const float> a, std::span<const float> b) {
  const size_t whole = a.size() / 4 * 4;
  float sums[4] = {};
  for (size_t i = 0; i < whole; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (size_t i = whole; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

inline double Norm(std::span<const float> a) { return std::sqrt(double{Dot(a, a)}); }

/// a * x + b * y
inline std::vector<float> Combine(double a, std::span<const float> x, double b,
                                  std::span<const float> y) {
  std::vector<float> sum(x.size());
  for (size_t i = 0; i < x.size(); ++i) sum[i] = static_cast<float>(a * x[i] + b * y[i]);
  return sum;
}

/// `a` scaled to length 1; `a` is not zero.
inline std::vector<float> Unit(std::span<const float> a) { return Combine(1 / Norm(a), a, 0, a); }

/// A uniformly distributed direction.
inline std::vector<float> RandomDirection(size_t dimensions, Random& random) {
  std::vector<float> direction(dimensions);
  for (float& value : direction) value = random.Normal();
  return Unit(direction);
}

/// The direction of the part of `a` that is perpendicular to the direction `to`.
inline std::vector<float> Perpendicular(std::span<const float> a, std::span<const float> to) {
  return Unit(Combine(1, a, -Dot(a, to), to));
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_VECTORS_H_
