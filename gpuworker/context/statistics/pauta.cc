// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/pauta.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace quire::worker {
namespace {

constexpr double kDeviations = 3;

}  // namespace

double PautaReach(size_t n) {
  return n == 0 ? 0 : static_cast<double>(n - 1) / std::sqrt(static_cast<double>(n));
}

std::vector<size_t> PautaOutliers(std::span<const double> samples) {
  std::vector<size_t> finite;
  double mean = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!std::isfinite(samples[i])) continue;
    finite.push_back(i);
    mean += samples[i];
  }
  if (finite.empty()) return {};
  const auto value = [&](size_t i) { return samples[i]; };
  if (PautaReach(finite.size()) <= kDeviations) {
    return {*std::ranges::min_element(finite, std::less<>(), value)};
  }
  mean /= static_cast<double>(finite.size());
  double variance = 0;
  for (const size_t i : finite) variance += (samples[i] - mean) * (samples[i] - mean);
  variance /= static_cast<double>(finite.size());
  const double least = mean - kDeviations * std::sqrt(variance);
  std::erase_if(finite, [&](size_t i) { return samples[i] >= least; });
  return finite;
}

}  // namespace quire::worker
