// SPDX-License-Identifier: Apache-2.0
//
// The softmax of pool.h as every table computes it: factors, exponential, and the weights of a row
// in plain loops. A table with other loops gives the same bits.
#ifndef QUIRE_KERNELS_CPU_SOFTMAX_H_
#define QUIRE_KERNELS_CPU_SOFTMAX_H_

#include <cmath>
#include <cstdint>

#include "kernels/api/pool.h"

namespace quire::kernels {

/// Partial sums of a row.
inline constexpr int64_t kSoftmaxSums = 512;

/// Factor of the scores.
inline float SoftmaxFactor(const PoolArgs& args) {
  if (args.pooling != Pooling::kAvgSdM) return 1.0f;
  return 1.0f / std::sqrt(static_cast<float>(args.head_dim));
}
/// Total weight of one query head in the pooled row.
inline float HeadShare(const PoolArgs& args) {
  if (args.pooling == Pooling::kMaxSM) return 1.0f;
  return 1.0f / static_cast<float>(args.n_q / args.n_kv);
}

// Constants of SoftmaxExp.
inline constexpr float kExpLeast = -87.0f;  ///< Smaller exponents give 0: no result is subnormal.
inline constexpr float kLog2E = 0x1.715476p+0f;
/// Added to a small number and subtracted again, it leaves the nearest whole number. The lowest
/// bits of the first sum are that number.
inline constexpr float kRoundToWhole = 0x1.8p+23f;
inline constexpr float kLn2High = 0x1.62e4p-1f;  ///< 17 bits: exact times a whole number of 7 bits.
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
/// e^r = 1 + r + r^2 (term 2 + term 3 r + ... + term 6 r^4), nearest for |r| <= ln(2)/2.
inline constexpr float kExpTerm2 = 0x1.fffffcp-2f;
inline constexpr float kExpTerm3 = 0x1.555492p-3f;
inline constexpr float kExpTerm4 = 0x1.5558f2p-5f;
inline constexpr float kExpTerm5 = 0x1.1239e4p-7f;
inline constexpr float kExpTerm6 = 0x1.6a2448p-10f;
inline constexpr uint32_t kBitsOfOne = 0x3f800000;
inline constexpr int kMantissaBits = 23;

/// Returns e^x for x <= 0, within 1.25 units in the last place; 1 for 0, and NaN for NaN.
float SoftmaxExp(float x);

/// weights[j] = SoftmaxExp(factor * row[j] - the largest of them), NaN for NaN. Returns the sum of
/// the numbers.
float PlainSoftmax(const float* row, int64_t n, float factor, float* weights);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_SOFTMAX_H_
