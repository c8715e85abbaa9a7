// SPDX-License-Identifier: Apache-2.0
//
// HeldTransport: replies to recalls wait while they are held, and until their latency is over.
// Callers wait on the given clock. It plays a server that writes into landings, where the test
// wants one. Nothing that ships includes this.
//
// Thread-safety: calls may come from many threads; settings change while no call is under way.
#ifndef QUIRE_GPUWORKER_TESTING_HELD_TRANSPORT_H_
#define QUIRE_GPUWORKER_TESTING_HELD_TRANSPORT_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/testing/landing_by_copy.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "quire/v1/session.pb.h"
#include "transport/transport.h"

namespace quire::worker::testing {

class HeldTransport final : public Transport {
 public:
  HeldTransport(std::shared_ptr<Transport> next, Clock* clock)
      : next_(std::move(next)), clock_(clock) {}

  using Watch = std::function<bool(const v1::RecallRequest& request, Priority priority)>;

  bool held = false;               ///< Holds all recalls while true.
  Watch watch;                     ///< Called for every recall; true drops its reply.
  Duration latency = {};           ///< Latency of recalls started from now on.
  Duration prefetch_latency = {};  ///< Added for prefetches.
  bool lands_directly = false;     ///< Parts are put into landings.

  /// Priority of every recall started.
  std::vector<Priority> recalls() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return recalls_;
  }

  TransportCapabilities capabilities() const override {
    TransportCapabilities can = next_->capabilities();
    can.direct_landing = lands_directly;
    return can;
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return std::make_unique<CopiedLanding>(memory);
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    const bool is_recall = method == "quire.v1.Session/Recall";
    const bool lost = is_recall && Watched(request, options.priority);
    if (is_recall) Note(options.priority);
    CallOptions in_messages = options;
    in_messages.landing = nullptr;
    QUIRE_ASSIGN_OR_RETURN(auto call, next_->Start(method, std::move(request), in_messages));
    if (!is_recall) return call;
    const bool prefetch = options.priority == Priority::kPrefetch;
    const TimePoint comes_at =
        clock_->Now() + latency + (prefetch ? prefetch_latency : Duration::zero());
    return std::make_unique<HeldCall>(this, std::move(call), options.landing, lost, comes_at);
  }

 private:
  void Note(Priority priority) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    recalls_.push_back(priority);
  }
  bool Watched(const CallMessage& request, Priority priority) const {
    if (watch == nullptr) return false;
    v1::RecallRequest parsed;
    return parsed.ParseFromString(request.control) && watch(parsed, priority);
  }

  class HeldCall final : public PendingCall {
   public:
    HeldCall(HeldTransport* transport, std::unique_ptr<PendingCall> call, Landing* landing,
             bool lost, TimePoint comes_at)
        : transport_(transport),
          call_(std::move(call)),
          landing_(landing),
          lost_(lost),
          comes_at_(comes_at) {}
    StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
      if (cancelled_) return call_->Next(deadline);
      const TimePoint until = IsHeld() ? deadline : std::min(deadline, comes_at_);
      const Duration wait = until - transport_->clock_->Now();
      if (wait > Duration::zero()) transport_->clock_->Sleep(wait);
      if (IsHeld() || deadline < comes_at_) return DeadlineExceeded("held");
      QUIRE_ASSIGN_OR_RETURN(auto part, call_->Next(deadline));
      if (part && landing_ != nullptr) LandByCopy(*landing_, &*part);
      return part;
    }
    void Cancel() override {
      cancelled_ = true;
      call_->Cancel();
    }
    bool IsQuiet() const override { return !IsHeld() && transport_->clock_->Now() >= comes_at_; }

   private:
    bool IsHeld() const { return transport_->held || lost_; }

    HeldTransport* const transport_;
    const std::unique_ptr<PendingCall> call_;
    Landing* const landing_;  ///< Null when units come in messages.
    const bool lost_;
    const TimePoint comes_at_;
    bool cancelled_ = false;
  };
  const std::shared_ptr<Transport> next_;
  Clock* const clock_;
  mutable Mutex mutex_;
  std::vector<Priority> recalls_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_HELD_TRANSPORT_H_
