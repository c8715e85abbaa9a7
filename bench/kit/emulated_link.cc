// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/emulated_link.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace quire::bench {

class EmulatedLink::Call final : public PendingCall {
 public:
  Call(EmulatedLink* link, std::unique_ptr<PendingCall> carried, TimePoint started)
      : link_(link), carried_(std::move(carried)), earliest_(started + link->shape_.round_trip) {}

  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    Clock& clock = *link_->clock_;
    if (!part_) {
      QUIRE_ASSIGN_OR_RETURN(part_, carried_->Next(deadline));
      if (!part_) return std::nullopt;  // The end takes no time on the link.
      comes_ = link_->Carry(earliest_, part_->control.size() + part_->payload.size_bytes());
    }
    const TimePoint now = clock.Now();
    if (comes_ > now) clock.Sleep(std::min(comes_, deadline) - now);
    if (comes_ > deadline && clock.Now() < comes_) {
      return DeadlineExceeded("a part is on its way over the emulated link");
    }
    return std::exchange(part_, std::nullopt);
  }
  void Cancel() override { carried_->Cancel(); }
  bool IsQuiet() const override { return carried_->IsQuiet(); }

 private:
  EmulatedLink* const link_;
  const std::unique_ptr<PendingCall> carried_;
  const TimePoint earliest_;
  /// Received from the carrier, and in flight on the link until `comes_`.
  std::optional<CallMessage> part_;
  TimePoint comes_;  ///< Arrival time of part_.
};

EmulatedLink::EmulatedLink(std::shared_ptr<Transport> carrier, const LinkShape& shape, Clock* clock)
    : carrier_(std::move(carrier)), shape_(shape), clock_(clock), busy_until_(TimePoint::min()) {}

StatusOr<std::unique_ptr<PendingCall>> EmulatedLink::Start(std::string_view method,
                                                           CallMessage request,
                                                           const CallOptions& options) {
  const TimePoint started = clock_->Now();
  QUIRE_ASSIGN_OR_RETURN(auto carried, carrier_->Start(method, std::move(request), options));
  return std::make_unique<Call>(this, std::move(carried), started);
}

TimePoint EmulatedLink::Carry(TimePoint from, uint64_t bytes) {
  if (shape_.bytes_per_second <= 0) return from;
  const std::chrono::duration<double> time(static_cast<double>(bytes) / shape_.bytes_per_second);
  MutexLock lock(mutex_);
  busy_until_ = std::max(busy_until_, from) + std::chrono::duration_cast<Duration>(time);
  return busy_until_;
}

}  // namespace quire::bench
