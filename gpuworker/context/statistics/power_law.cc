// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/power_law.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace quire::worker {

PowerLaw FitPowerLaw(std::span<const DistantAttention> points) {
  struct Point {
    double x, y;  // Logarithms.
  };
  std::vector<Point> logs;
  bool attended = false;
  Point mean{0, 0};
  for (const DistantAttention& point : points) {
    if (point.distance == 0) continue;
    // NaN counts as the floor as well.
    const double attention = std::max(kAttentionFloor, static_cast<double>(point.attention));
    attended |= attention > kAttentionFloor;
    logs.push_back({std::log(static_cast<double>(point.distance)), std::log(attention)});
    mean.x += logs.back().x;
    mean.y += logs.back().y;
  }
  if (!attended || logs.size() < kLeastFittedPoints) return {};
  mean.x /= static_cast<double>(logs.size());
  mean.y /= static_cast<double>(logs.size());
  double covariance = 0, variance = 0;
  for (const Point& point : logs) {
    covariance += (point.x - mean.x) * (point.y - mean.y);
    variance += (point.x - mean.x) * (point.x - mean.x);
  }
  const auto same_distance = [&](const Point& point) { return point.x == logs[0].x; };
  if (std::ranges::all_of(logs, same_distance)) return {};
  const double alpha = -covariance / variance;
  return {.coefficient = std::exp(mean.y + alpha * mean.x), .exponent = alpha};
}

}  // namespace quire::worker
