// SPDX-License-Identifier: Apache-2.0
//
// SlowCalls: the slowest calls of the last hour, and what they waited for. It keeps the slowest few
// of each minute, so an hour of trouble does not hide a minute of another. Memory is bounded. A
// call that is not among them costs two reads of memory. An entry names neither documents nor
// tokens. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SERVICE_SLOW_SLOW_CALLS_H_
#define QUIRE_KVSERVER_SERVICE_SLOW_SLOW_CALLS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/store/call_waits.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

struct SlowCall {
  std::string method;  ///< "quire.v1.Session/Recall"
  std::string tenant;
  StatusCode code = StatusCode::kOk;
  int64_t ended_unix_micros = 0;
  Duration time{0};  ///< From its arrival to the end of its reply.
  CallWaits waits;
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
};

class SlowCalls {
 public:
  static constexpr size_t kMinutes = 60;
  static constexpr size_t kPerMinute = 16;

  /// `clock` outlives it.
  explicit SlowCalls(const Clock* clock) : clock_(*clock) {}

  /// True when a call that ends now after `time` would be kept.
  bool IsSlow(Duration time) const {
    return time.count() > floor_.load(std::memory_order_relaxed) ||
           minute_.load(std::memory_order_relaxed) != MinuteNow();
  }
  /// Keeps a call that ends now, if it is among the slowest of its minute.
  void Note(SlowCall call) QUIRE_EXCLUDES(mutex_);

  /// The slowest calls of the last hour, slowest first; of all tenants when `tenant` is empty.
  std::vector<SlowCall> Slowest(size_t most, std::string_view tenant = {}) const
      QUIRE_EXCLUDES(mutex_);

 private:
  struct Minute {
    int64_t number = -1;
    std::vector<SlowCall> calls;  ///< A heap, whose first is the fastest.
  };
  int64_t MinuteNow() const {
    return std::chrono::duration_cast<std::chrono::minutes>(clock_.Now().time_since_epoch())
        .count();
  }

  const Clock& clock_;
  std::atomic<int64_t> minute_{-1};  ///< The minute of the last call that was kept.
  std::atomic<int64_t> floor_{0};    ///< Nanoseconds that a call of it must exceed.
  mutable Mutex mutex_;
  std::array<Minute, kMinutes> minutes_ QUIRE_GUARDED_BY(mutex_);  ///< By number, around a ring.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_SLOW_SLOW_CALLS_H_
