// SPDX-License-Identifier: Apache-2.0
//
// HeldTransport: replies to recalls do not come while they are held; whoever waits for one waits in
// vain, on the clock it was given. Of landings it says what the test wants to be said. Nothing that
// ships includes this. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TESTING_HELD_TRANSPORT_H_
#define QUIRE_GPUWORKER_TESTING_HELD_TRANSPORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/transport/transport.h"
#include "quire/v1/session.pb.h"

namespace quire::worker::testing {

class HeldTransport final : public Transport {
 public:
  HeldTransport(std::shared_ptr<Transport> next, Clock* clock)
      : next_(std::move(next)), clock_(clock) {}

  using Watch = std::function<bool(const v1::RecallRequest& request, Priority priority)>;

  bool held = false;            ///< All of them, until it is false again.
  Watch watch;                  ///< Told of every recall; true: its reply never comes.
  bool lands_directly = false;  ///< What `next` puts into landings counts as written by the server.
  std::vector<Priority> recalls;  ///< Of every recall started.

  TransportCapabilities capabilities() const override {
    TransportCapabilities can = next_->capabilities();
    can.direct_landing = lands_directly;
    return can;
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(LandingMemory memory) override {
    return next_->AddLanding(memory);
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    const bool is_recall = method == "quire.v1.Session/Recall";
    const bool lost = is_recall && Watched(request, options.priority);
    if (is_recall) recalls.push_back(options.priority);
    QUIRE_ASSIGN_OR_RETURN(auto call, next_->Start(method, std::move(request), options));
    if (!is_recall) return call;
    return std::make_unique<HeldCall>(this, std::move(call), lost);
  }

 private:
  bool Watched(const CallMessage& request, Priority priority) const {
    if (watch == nullptr) return false;
    v1::RecallRequest parsed;
    return parsed.ParseFromString(request.control) && watch(parsed, priority);
  }

  class HeldCall final : public PendingCall {
   public:
    HeldCall(HeldTransport* transport, std::unique_ptr<PendingCall> call, bool lost)
        : transport_(transport), call_(std::move(call)), lost_(lost) {}
    StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
      if (!IsHeld() || cancelled_) return call_->Next(deadline);
      transport_->clock_->Sleep(deadline - transport_->clock_->Now());
      return DeadlineExceeded("held");
    }
    void Cancel() override {
      cancelled_ = true;
      call_->Cancel();
    }
    bool IsQuiet() const override { return !IsHeld(); }

   private:
    bool IsHeld() const { return transport_->held || lost_; }

    HeldTransport* const transport_;
    const std::unique_ptr<PendingCall> call_;
    const bool lost_;
    bool cancelled_ = false;
  };
  const std::shared_ptr<Transport> next_;
  Clock* const clock_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_HELD_TRANSPORT_H_
