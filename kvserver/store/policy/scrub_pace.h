// SPDX-License-Identifier: Apache-2.0
//
// ScrubPace: how fast stored bytes are read again to verify them. In any `t` seconds at most
// `bytes_per_second * t` bytes are read and what one call was told besides; time in which nothing
// was read is not made up for. Rounds over all that is stored start at regular times, or when the
// one before has ended, so that a small store is not read all day.
// No I/O, no clock. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_SCRUB_PACE_H_
#define QUIRE_KVSERVER_STORE_POLICY_SCRUB_PACE_H_

#include <cstdint>

#include "quire/clock.h"

namespace quire::kvserver {

class ScrubPace {
 public:
  static constexpr Duration kFirstRoundAfter = std::chrono::minutes(1);
  static constexpr Duration kRoundsApart = std::chrono::hours(1);

  /// 0: as fast as can be.
  explicit ScrubPace(uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// How long to wait before anything more is read, when `bytes` have just been.
  Duration AfterReading(uint64_t bytes, TimePoint now);
  /// How long to wait before the next round.
  static Duration AfterRound(TimePoint started, TimePoint ended);

 private:
  const uint64_t bytes_per_second_;
  TimePoint due_{};  ///< When what was read so far is paid for.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_SCRUB_PACE_H_
