// SPDX-License-Identifier: Apache-2.0
//
// CalibrateThreshold: FreeKV's threshold tau at which a model corrects about as many KV heads as
// others do at the published one. Cosines of queries differ from model to model, and with them what
// a threshold is worth.
#ifndef QUIRE_BENCH_ANSWERS_CALIBRATE_THRESHOLD_H_
#define QUIRE_BENCH_ANSWERS_CALIBRATE_THRESHOLD_H_

#include <functional>

#include "quire/status.h"

namespace quire::bench {

/// KV heads that trained models correct in a step at their published threshold of 0.8 (FreeKV).
inline constexpr double kCorrectedShare = 0.138;

/// The share of the KV heads that are corrected at `tau`, which does not fall as tau rises.
using CorrectedShare = std::function<StatusOr<double>(float tau)>;

/// A threshold in [-1, 1] at which about `wanted` of the heads are corrected, and at which no more
/// than that were when it was tried. It tries eight.
StatusOr<float> CalibrateThreshold(double wanted, const CorrectedShare& corrected_share);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_CALIBRATE_THRESHOLD_H_
