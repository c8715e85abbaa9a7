// SPDX-License-Identifier: Apache-2.0
//
// RoomSample: decides whether a file system has to be asked for its free bytes again, which is a
// system call for each put. The last answer suffices while it is fresh, and showed far more than
// others can have filled since. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_ROOM_SAMPLE_H_
#define QUIRE_KVSERVER_STORE_POLICY_ROOM_SAMPLE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "quire/clock.h"

namespace quire::kvserver {

class RoomSample {
 public:
  /// Time for which a sample counts.
  static constexpr Duration kTrusted = std::chrono::milliseconds(100);
  /// Bytes that stay out of use: what others write in that time at 10 GiB/s.
  static constexpr uint64_t kLeftForOthers = uint64_t{1} << 30;

  /// Notes that `free_bytes` were free at `now`.
  void Note(uint64_t free_bytes, TimePoint now) {
    left_ = free_bytes - std::min(free_bytes, kLeftForOthers);
    until_ = now + kTrusted;
  }
  /// True when `bytes` certainly fit at `now`. They count as used up then.
  bool Take(uint64_t bytes, TimePoint now) {
    if (now >= until_ || bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  uint64_t left_ = 0;
  TimePoint until_ = TimePoint::min();
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_ROOM_SAMPLE_H_
