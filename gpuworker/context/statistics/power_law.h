// SPDX-License-Identifier: Apache-2.0
//
// Power law of attention to a token by distance (SamKV, arXiv 2508.11661, appendix A.1): y = C
// x^-alpha. A smaller alpha means a more important token or block. Attention with alpha <= 0 does
// not fall and is the most important. Thread-safety: pure function. Units: tokens of distance,
// probabilities. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_STATISTICS_POWER_LAW_H_
#define QUIRE_GPUWORKER_CONTEXT_STATISTICS_POWER_LAW_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace quire::worker {

/// How much a query attends to a token that is `distance` tokens before it.
struct DistantAttention {
  uint32_t distance = 0;
  float attention = 0;
};

/// As it is made: a law of something unimportant.
struct PowerLaw {
  double coefficient = 0;                                     ///< C
  double exponent = std::numeric_limits<double>::infinity();  ///< Alpha.
};

/// Attention below it counts as this much.
inline constexpr double kAttentionFloor = 1e-8;
/// Fewer points are not fitted.
inline constexpr size_t kLeastFittedPoints = 8;

/// The law with the least squares of ln y over ln x; points at distance 0 are left out. Unimportant
/// when too few points are left, when all have one distance, and when none is above the floor.
PowerLaw FitPowerLaw(std::span<const DistantAttention> points);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_STATISTICS_POWER_LAW_H_
