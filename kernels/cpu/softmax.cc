// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/softmax.h"

#include <array>
#include <limits>

#include "quire/dtype.h"

namespace quire::kernels {
namespace {

float Largest(const float* row, int64_t n, float factor) {
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    if (factor * row[j] > top) top = factor * row[j];
  }
  return top;
}

}  // namespace

float SoftmaxExp(float x) {
  const float shifted = x * kLog2E + kRoundToWhole;
  const float whole = shifted - kRoundToWhole;
  const float rest = x - whole * kLn2High - whole * kLn2Low;
  float series = kExpTerm6;
  for (const float term : {kExpTerm5, kExpTerm4, kExpTerm3, kExpTerm2}) {
    series = series * rest + term;
  }
  const float power = series * (rest * rest) + rest + 1.0f;
  const float two_to_whole = FloatFromBits((FloatBits(shifted) << kMantissaBits) + kBitsOfOne);
  return x < kExpLeast ? 0.0f : power * two_to_whole;
}

float PlainSoftmax(const float* row, int64_t n, float factor, float* weights) {
  const float top = Largest(row, n, factor);
  std::array<float, kSoftmaxSums> sums = {};
  for (int64_t j = 0; j < n; ++j) {
    const float value = factor * row[j];
    // Infinite maxima share the weight; infinity - infinity would be NaN.
    weights[j] = SoftmaxExp(value == top ? 0.0f : value - top);
    if (!std::isnan(weights[j])) sums[static_cast<size_t>(j % kSoftmaxSums)] += weights[j];
  }
  for (size_t distance = kSoftmaxSums / 2; distance > 0; distance /= 2) {
    for (size_t j = 0; j < distance; ++j) sums[j] += sums[j + distance];
  }
  return sums[0];
}

}  // namespace quire::kernels
