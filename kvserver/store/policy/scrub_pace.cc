// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/scrub_pace.h"

#include <algorithm>

namespace quire::kvserver {
namespace {

/// Longest wait for one read, so that no rate overflows the sum.
constexpr double kLongestWaitSeconds = 3600;

}  // namespace

Duration ScrubPace::AfterReading(uint64_t bytes, TimePoint now) {
  if (bytes_per_second_ == 0) return Duration::zero();
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
  const std::chrono::duration<double> cost(std::min(seconds, kLongestWaitSeconds));
  due_ = std::max(due_, now) + std::chrono::duration_cast<Duration>(cost);
  return due_ - now;
}

Duration ScrubPace::AfterRound(TimePoint started, TimePoint ended) {
  return std::max(Duration::zero(), kRoundsApart - (ended - started));
}

}  // namespace quire::kvserver
