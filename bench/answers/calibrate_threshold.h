// SPDX-License-Identifier: Apache-2.0
//
// CalibrateThreshold: finds FreeKV's threshold tau for a model. At the result, it corrects about as
// many KV heads as other models do at the published threshold. The cosines of queries differ
// between models, and with them the effect of a threshold.
#ifndef QUIRE_BENCH_ANSWERS_CALIBRATE_THRESHOLD_H_
#define QUIRE_BENCH_ANSWERS_CALIBRATE_THRESHOLD_H_

#include <functional>

#include "common/base/status.h"

namespace quire::bench {

/// Share of KV heads that trained models correct in a step at FreeKV's published threshold of 0.8.
inline constexpr double kCorrectedShare = 0.138;

/// Measures the share of the KV heads corrected at `tau`; it does not fall as tau rises.
using CorrectedShare = std::function<StatusOr<double>(float tau)>;

/// A threshold in [-1, 1] that corrects about `wanted` of the heads, and no more than that when
/// tried. Tries eight thresholds.
StatusOr<float> CalibrateThreshold(double wanted, const CorrectedShare& corrected_share);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_CALIBRATE_THRESHOLD_H_
