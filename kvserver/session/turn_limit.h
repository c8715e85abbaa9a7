// SPDX-License-Identifier: Apache-2.0
//
// TurnLimit: how many calls may be at something that only one can use at a time. A call that waits
// for another holds a thread of the server; a worker that repeats itself while the SSD hangs would
// take one thread after the other. Over the limit a call is refused instead of waiting.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SESSION_TURN_LIMIT_H_
#define QUIRE_KVSERVER_SESSION_TURN_LIMIT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/base/retry_hint.h"
#include "common/base/status.h"

namespace quire::kvserver {

class TurnLimit {
 public:
  class Turn {
   public:
    ~Turn() {
      if (limit_ != nullptr) limit_->taken_.fetch_sub(1, std::memory_order_relaxed);
    }
    Turn(Turn&& other) noexcept : limit_(std::exchange(other.limit_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;

   private:
    friend class TurnLimit;
    explicit Turn(TurnLimit* limit) : limit_(limit) {}
    TurnLimit* limit_;
  };

  /// `max_turns` at a time of `what`, which outlives it.
  TurnLimit(uint32_t max_turns, std::string_view what) : max_turns_(max_turns), what_(what) {}

  /// Held while the call works or waits. RESOURCE_EXHAUSTED with a retry hint over the limit.
  [[nodiscard]] StatusOr<Turn> Take() {
    Turn turn(this);
    if (taken_.fetch_add(1, std::memory_order_relaxed) < max_turns_) return turn;
    return WithRetryAfter(
        ResourceExhausted(what_, " has ", max_turns_, " calls at work or waiting; retry later"),
        kRetryAfter);
  }

 private:
  static constexpr Duration kRetryAfter = std::chrono::milliseconds(20);

  const uint32_t max_turns_;
  const std::string_view what_;
  std::atomic<uint32_t> taken_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_TURN_LIMIT_H_
