// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/calibrate_threshold.h"

namespace quire::bench {
namespace {

constexpr float kFirstProbe = 0.8f;  ///< The published threshold.
constexpr int kProbes = 8;

}  // namespace

StatusOr<float> CalibrateThreshold(double wanted, const CorrectedShare& corrected_share) {
  float low = -1, high = 1;
  float tau = kFirstProbe;
  for (int probe = 0; probe < kProbes; ++probe) {
    QUIRE_ASSIGN_OR_RETURN(const double corrected, corrected_share(tau));
    (corrected > wanted ? high : low) = tau;
    tau = (low + high) / 2;
  }
  return low;
}

}  // namespace quire::bench
