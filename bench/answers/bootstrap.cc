// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/bootstrap.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/random.h"

namespace quire::bench {
namespace {

/// Share of the resampled means outside the interval on either side.
constexpr double kOutside = 0.025;

}  // namespace

Estimate BootstrapMean(std::span<const double> values, uint32_t resamples, uint64_t seed) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  SeededRandom random(seed);
  std::vector<double> means(resamples);
  for (double& mean : means) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[random.Below(values.size())];
    mean = sum / count;
  }
  std::ranges::sort(means);
  const auto outside = static_cast<size_t>(kOutside * static_cast<double>(resamples));
  return {.mean = std::accumulate(values.begin(), values.end(), 0.0) / count,
          .low = means[outside],
          .high = means[means.size() - 1 - outside]};
}

}  // namespace quire::bench
