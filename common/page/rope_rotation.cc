// SPDX-License-Identifier: Apache-2.0
#include "common/page/rope_rotation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace quire {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

std::vector<double> Unscaled(const RopeSpec& spec) {
  std::vector<double> frequencies(spec.rotary_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(spec.theta, -2.0 * static_cast<double>(i) / spec.rotary_dim);
  }
  return frequencies;
}

/// Llama 3.1: long wavelengths are stretched by the factor, short ones kept, those between blended.
double Llama3(const RopeSpec& spec, double frequency) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength < spec.original_context / spec.high_freq_factor) return frequency;
  if (wavelength > spec.original_context / spec.low_freq_factor) return frequency / spec.factor;
  const double smooth = (spec.original_context / wavelength - spec.low_freq_factor) /
                        (spec.high_freq_factor - spec.low_freq_factor);
  return (1.0 - smooth) * frequency / spec.factor + smooth * frequency;
}

/// YaRN: index of the pair whose wave turns `rotations` times within the original context.
double PairOfRotations(const RopeSpec& spec, double rotations) {
  return spec.rotary_dim * std::log(spec.original_context / (rotations * kTwoPi)) /
         (2.0 * std::log(spec.theta));
}

/// YaRN: share of stretching of each pair, [rotary_dim/2]: none below the pair `first`, full above
/// `last`, with a ramp between.
std::vector<double> YarnRamp(const RopeSpec& spec, double first, double last) {
  const double low = std::max(first, 0.0);
  double high = std::min(last, spec.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> ramp(spec.rotary_dim / 2);
  for (size_t i = 0; i < ramp.size(); ++i) {
    ramp[i] = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  }
  return ramp;
}

void ApplyYarn(const RopeSpec& spec, std::vector<double>& frequencies) {
  const std::vector<double> ramp = YarnRamp(spec, std::floor(PairOfRotations(spec, spec.beta_fast)),
                                            std::ceil(PairOfRotations(spec, spec.beta_slow)));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = frequencies[i] / spec.factor * ramp[i] + frequencies[i] * (1.0 - ramp[i]);
  }
}

}  // namespace

RopeRotation::RopeRotation(const RopeSpec& spec) : inverse_frequencies_(Unscaled(spec)) {
  switch (spec.scaling) {
    case RopeScaling::kLinear:
      for (double& frequency : inverse_frequencies_) frequency /= spec.factor;
      break;
    case RopeScaling::kLlama3:
      for (double& frequency : inverse_frequencies_) frequency = Llama3(spec, frequency);
      break;
    case RopeScaling::kYarn:
      ApplyYarn(spec, inverse_frequencies_);
      break;
    case RopeScaling::kLongRope:
      for (size_t i = 0; i < inverse_frequencies_.size(); ++i) {
        inverse_frequencies_[i] /= spec.pair_factors[i];
      }
      break;
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
      break;
  }
}

std::vector<double> UntruncatedYarnFactors(const RopeSpec& spec) {
  std::vector<double> factors =
      YarnRamp(spec, PairOfRotations(spec, spec.beta_fast), PairOfRotations(spec, spec.beta_slow));
  for (double& factor : factors) factor = 1.0 / (factor / spec.factor + (1.0 - factor));
  return factors;
}

void RopeRotation::FillMove(int64_t delta, float* cosines, float* sines) const {
  for (const double frequency : inverse_frequencies_) {
    const double angle = static_cast<double>(delta) * frequency;
    *cosines++ = static_cast<float>(std::cos(angle));
    *sines++ = static_cast<float>(std::sin(angle));
  }
}

}  // namespace quire
