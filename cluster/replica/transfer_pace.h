// SPDX-License-Identifier: Apache-2.0
//
// TransferPace: a bandwidth limit for work in pieces. A piece may begin while the limit is not
// overdrawn. Its bytes are drawn afterwards, so a piece may be larger than the limit of a second,
// and the next one waits the longer. Thread-safety: none.
#ifndef QUIRE_CLUSTER_REPLICA_TRANSFER_PACE_H_
#define QUIRE_CLUSTER_REPLICA_TRANSFER_PACE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "quire/clock.h"

namespace quire::cluster {

class TransferPace {
 public:
  explicit TransferPace(const Clock* clock) : clock_(*clock), last_(clock->Now()) {}

  /// Sets the limit; 0 for none.
  void SetRate(uint64_t bytes_per_second) { rate_ = static_cast<double>(bytes_per_second); }
  bool MayBegin() {
    const TimePoint now = clock_.Now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    // At most the bytes of a second are saved up.
    room_ = std::min(room_ + rate_ * seconds, rate_);
    return rate_ == 0 || room_ >= 0;
  }
  void Draw(uint64_t bytes) {
    if (rate_ > 0) room_ -= static_cast<double>(bytes);
  }

 private:
  const Clock& clock_;
  TimePoint last_;
  double rate_ = 0;
  double room_ = 0;  ///< Bytes; negative when overdrawn.
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_TRANSFER_PACE_H_
