// SPDX-License-Identifier: Apache-2.0
//
// ScrubPace: the rate at which stored bytes are read again for verification. In any `t` seconds at
// most `bytes_per_second * t` bytes are read, plus those of one call. Idle time is not made up for.
// Rounds over all stored bytes start at regular times, or when the previous round ends. A small
// store is therefore not read all day. No I/O, no clock. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_SCRUB_PACE_H_
#define QUIRE_KVSERVER_STORE_POLICY_SCRUB_PACE_H_

#include <cstdint>

#include "common/base/clock.h"

namespace quire::kvserver {

class ScrubPace {
 public:
  static constexpr Duration kFirstRoundAfter = std::chrono::minutes(1);
  static constexpr Duration kRoundsApart = std::chrono::hours(1);

  /// 0: unlimited.
  explicit ScrubPace(uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Time to wait before the next read, after reading `bytes`.
  Duration AfterReading(uint64_t bytes, TimePoint now);
  /// Time to wait before the next round.
  static Duration AfterRound(TimePoint started, TimePoint ended);

 private:
  const uint64_t bytes_per_second_;
  TimePoint due_{};  ///< Time at which all reads so far are paid for.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_SCRUB_PACE_H_
