// SPDX-License-Identifier: Apache-2.0
//
// SideBySide: contenders that do the same work in turns, so that drift (the device, other work on
// the machine) affects all alike. A ratio is the median over the rounds of the ratio within a
// round. Thread-safety: none.
#ifndef QUIRE_BENCH_KIT_SIDE_BY_SIDE_H_
#define QUIRE_BENCH_KIT_SIDE_BY_SIDE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bench/kit/median.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::bench {

/// Speed of turns of `times` relative to that of `limit`: the median over the rounds.
inline double SpeedRatio(const std::vector<Duration>& times, const std::vector<Duration>& limit) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(times.size(), limit.size()); ++round) {
    ratios.push_back(static_cast<double>(limit[round].count()) /
                     static_cast<double>(times[round].count()));
  }
  return Median(std::move(ratios));
}
/// Amount per second if each turn handles `amount`.
inline double PerSecond(const std::vector<Duration>& times, uint64_t amount) {
  const std::chrono::duration<double> seconds = Median(times);
  return seconds.count() > 0 ? static_cast<double>(amount) / seconds.count() : 0;
}

class SideBySide {
 public:
  struct Contender {
    std::function<Status()> turn;               ///< The timed work.
    std::function<Status()> prepare = nullptr;  ///< Runs before each turn, not timed; may be null.
    std::shared_ptr<Duration> took = nullptr;   ///< Set by a turn that measures its own time.
  };
  /// A turn that measures its own time, for a contender with setup work.
  static Contender Timing(std::function<StatusOr<Duration>()> turn) {
    auto took = std::make_shared<Duration>();
    auto timed = [turn = std::move(turn), took]() -> Status {
      QUIRE_ASSIGN_OR_RETURN(*took, turn());
      return OkStatus();
    };
    return {.turn = std::move(timed), .took = std::move(took)};
  }

  /// `untimed`: turns of a contender before each timed one. Use it for work that depends on state
  /// the previous contender left, such as the kernel's lists of free pages.
  explicit SideBySide(std::vector<Contender> contenders, uint32_t untimed = 0)
      : contenders_(std::move(contenders)), untimed_(untimed), times_(contenders_.size()) {}

  /// Runs `rounds` more rounds. Each round begins with another contender, and every other round
  /// runs backwards. Neighbours thereby see the same drift, and neither always finds the other's
  /// data in the caches.
  Status Run(uint32_t rounds) {
    for (const uint32_t end = rounds_ + rounds; rounds_ < end; ++rounds_) {
      const size_t count = contenders_.size();
      for (size_t turn = 0; turn < count; ++turn) {
        const size_t contender = (rounds_ + (rounds_ % 2 == 0 ? turn : count - turn)) % count;
        for (uint32_t i = 0; i < untimed_; ++i) {
          QUIRE_RETURN_IF_ERROR(Time(contenders_[contender]).status());
        }
        QUIRE_ASSIGN_OR_RETURN(const Duration took, Time(contenders_[contender]));
        times_[contender].push_back(took);
      }
    }
    return OkStatus();
  }

  /// Times of a contender's turns, round by round.
  const std::vector<Duration>& Times(size_t contender) const { return times_[contender]; }
  double Ratio(size_t contender, size_t limit) const {
    return SpeedRatio(times_[contender], times_[limit]);
  }
  double PerSecond(size_t contender, uint64_t amount) const {
    return bench::PerSecond(times_[contender], amount);
  }

 private:
  static StatusOr<Duration> Time(const Contender& contender) {
    if (contender.prepare) QUIRE_RETURN_IF_ERROR(contender.prepare());
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(contender.turn());
    const Duration took = SystemClock().Now() - start;
    return contender.took != nullptr ? *contender.took : took;
  }

  const std::vector<Contender> contenders_;
  const uint32_t untimed_;
  std::vector<std::vector<Duration>> times_;
  uint32_t rounds_ = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_SIDE_BY_SIDE_H_
