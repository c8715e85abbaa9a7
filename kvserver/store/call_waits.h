// SPDX-License-Identifier: Apache-2.0
//
// CallWaits: where the time of one call went. The parts of the server that a call passes through
// add their own time, without what parts inside them took. Where the call is traced, each time is a
// span, too, within that of the part around it. Thread-safety: none; it belongs to the thread of
// its call.
#ifndef QUIRE_KVSERVER_STORE_CALL_WAITS_H_
#define QUIRE_KVSERVER_STORE_CALL_WAITS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

#include "common/base/trace/span.h"
#include "quire/clock.h"

namespace quire::kvserver {

/// Causes of waiting.
enum class WaitedFor : uint8_t {
  kQueue,      ///< Its turn to run, and other calls of its session.
  kGate,       ///< Its turn to read from SSD.
  kDram,       ///< Reads that DRAM answers.
  kSsd,        ///< Reads and writes of the SSD: units, digests, segments, rows of the registry.
  kSelection,  ///< Scoring of pages.
  kNetwork,    ///< Its client, to take the reply.
};
inline constexpr size_t kNumWaits = 6;

/// Name of the span of such a wait.
constexpr std::string_view SpanNameOf(WaitedFor what) {
  constexpr std::array<std::string_view, kNumWaits> kNames = {"queue", "gate",      "dram",
                                                              "ssd",   "selection", "network"};
  return kNames[static_cast<size_t>(what)];
}

class CallWaits {
 public:
  /// The span that waits begin in from now on; null when the call is not recorded. It outlives its
  /// use here.
  const Span* span() const { return span_; }
  void SetSpan(const Span* span) { span_ = span; }

  void Add(WaitedFor what, Duration time) { times_[static_cast<size_t>(what)] += time; }
  Duration of(WaitedFor what) const { return times_[static_cast<size_t>(what)]; }
  Duration total() const { return std::accumulate(times_.begin(), times_.end(), Duration{0}); }

 private:
  std::array<Duration, kNumWaits> times_{};
  const Span* span_ = nullptr;
};

/// Adds the time of a scope, less what scopes inside it added. Costs nothing without waits.
class WaitTimer {
 public:
  /// `waits` may be null, and outlives the timer.
  WaitTimer(CallWaits* waits, WaitedFor what) : waits_(waits), what_(what) {
    if (waits_ == nullptr) return;
    before_ = waits_->total();
    around_ = waits_->span();
    if (around_ != nullptr) waits_->SetSpan(&span_.emplace(around_->Child(SpanNameOf(what))));
    start_ = SystemClock().Now();
  }
  ~WaitTimer() {
    if (waits_ == nullptr) return;
    const Duration inside = waits_->total() - before_;
    waits_->Add(what_, SystemClock().Now() - start_ - inside);
    waits_->SetSpan(around_);
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  CallWaits* const waits_;
  const WaitedFor what_;
  Duration before_{0};
  TimePoint start_;
  const Span* around_ = nullptr;  ///< The span that its own one is in.
  std::optional<Span> span_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_CALL_WAITS_H_
