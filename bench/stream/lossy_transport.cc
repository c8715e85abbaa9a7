// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/lossy_transport.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

namespace quire::bench {

/// Takes the whole reply when first asked, and delivers what the fault leaves of it.
class LossyTransport::LossyCall final : public PendingCall {
 public:
  LossyCall(LossyTransport* lossy, std::unique_ptr<PendingCall> call, Fault fault, TimePoint over)
      : lossy_(lossy), call_(std::move(call)), fault_(fault), over_(over) {}
  ~LossyCall() override {
    if (fault_ == Fault::kStale) lossy_->Strand(std::move(reply_));
  }

  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    if (cancelled_ && !taken_) return call_->Next(deadline);  // Bytes may still land.
    if (cancelled_) return Status(StatusCode::kCancelled, "the caller cancelled the call");
    if (!taken_) QUIRE_RETURN_IF_ERROR(TakeReply(deadline));
    QUIRE_RETURN_IF_ERROR(AwaitParts(std::min(deadline, over_)));
    if (coming_.empty()) return std::nullopt;
    Coming next = std::move(coming_.front());
    coming_.pop_front();
    if (next.fault != Fault::kNone && std::exchange(counted_, next.fault) != next.fault) {
      lossy_->Count(next.fault);
    }
    return std::move(next.part);
  }
  void Cancel() override {
    cancelled_ = true;
    call_->Cancel();
  }
  bool IsQuiet() const override { return call_->IsQuiet(); }

 private:
  /// A part, and the fault of its delivery.
  struct Coming {
    CallMessage part;
    Fault fault;
  };

  Status TakeReply(TimePoint deadline) {
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(auto part, call_->Next(deadline));
      if (!part) break;
      reply_.push_back(*std::move(part));
    }
    taken_ = true;
    if (fault_ == Fault::kDrop) lossy_->Count(fault_);
    if (fault_ == Fault::kDrop || fault_ == Fault::kStale) {
      comes_at_ = TimePoint::max();
    } else {
      Prepare();
    }
    return OkStatus();
  }

  void Prepare() {
    if (fault_ == Fault::kLate) comes_at_ = lossy_->clock_.Now() + lossy_->options_.late_by;
    for (CallMessage& part : lossy_->TakeStranded()) {
      coming_.push_back({std::move(part), Fault::kStale});
    }
    const Parts before = lossy_->Exchange(reply_);
    if (fault_ == Fault::kReplay) {
      for (const CallMessage& part : before) coming_.push_back({part, fault_});
    }
    for (const CallMessage& part : reply_) {
      coming_.push_back({part, fault_ == Fault::kLate ? fault_ : Fault::kNone});
      if (fault_ == Fault::kDuplicate) coming_.push_back({part, fault_});
    }
  }

  Status AwaitParts(TimePoint deadline) const {
    Clock& clock = lossy_->clock_;
    const TimePoint until = std::min(comes_at_, deadline);
    if (const TimePoint now = clock.Now(); now < until) clock.Sleep(until - now);
    if (clock.Now() >= comes_at_) return OkStatus();
    return DeadlineExceeded("no part of the reply has come until the deadline");
  }

  LossyTransport* const lossy_;
  const std::unique_ptr<PendingCall> call_;
  const Fault fault_;
  const TimePoint over_;  ///< Deadline of the call itself.
  std::atomic<bool> cancelled_{false};
  bool taken_ = false;
  Parts reply_;                            ///< As the server sent it.
  TimePoint comes_at_ = TimePoint::min();  ///< Earliest delivery.
  std::deque<Coming> coming_;
  Fault counted_ = Fault::kNone;  ///< The last fault counted.
};

LossyTransport::LossyTransport(std::shared_ptr<Transport> transport, Options options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      random_(options_.seed) {}

LossyTransport::~LossyTransport() = default;

LossyTransport::Faults LossyTransport::faults() const {
  MutexLock lock(mutex_);
  return faults_;
}

StatusOr<std::unique_ptr<PendingCall>> LossyTransport::Start(std::string_view method,
                                                             CallMessage request,
                                                             const CallOptions& options) {
  const TimePoint over = clock_.Now() + options.timeout;
  QUIRE_ASSIGN_OR_RETURN(auto call, transport_->Start(method, std::move(request), options));
  if (method != options_.method) return call;
  return std::make_unique<LossyCall>(this, std::move(call), NextFault(), over);
}

Status LossyTransport::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                            const CallOptions& options) {
  if (method != options_.method) return transport_->Call(method, request, reply, options);
  return Transport::Call(method, request, reply, options);
}

LossyTransport::Fault LossyTransport::NextFault() {
  const std::pair<Fault, double> rates[] = {{Fault::kDrop, options_.drop_rate},
                                            {Fault::kLate, options_.late_rate},
                                            {Fault::kStale, options_.stale_rate},
                                            {Fault::kDuplicate, options_.duplicate_rate},
                                            {Fault::kReplay, options_.replay_rate}};
  MutexLock lock(mutex_);
  double drawn = random_.Uniform();
  for (const auto& [fault, rate] : rates) {
    if (drawn < rate) return fault;
    drawn -= rate;
  }
  return Fault::kNone;
}

void LossyTransport::Count(Fault fault) {
  MutexLock lock(mutex_);
  switch (fault) {
    case Fault::kNone:
      break;
    case Fault::kDrop:
      ++faults_.dropped;
      break;
    case Fault::kLate:
      ++faults_.late;
      break;
    case Fault::kStale:
      ++faults_.stale;
      break;
    case Fault::kDuplicate:
      ++faults_.duplicated;
      break;
    case Fault::kReplay:
      ++faults_.replayed;
      break;
  }
}

void LossyTransport::Strand(Parts reply) {
  MutexLock lock(mutex_);
  std::ranges::move(reply, std::back_inserter(stranded_));
}

LossyTransport::Parts LossyTransport::TakeStranded() {
  MutexLock lock(mutex_);
  return std::exchange(stranded_, {});
}

LossyTransport::Parts LossyTransport::Exchange(Parts reply) {
  MutexLock lock(mutex_);
  return std::exchange(last_, std::move(reply));
}

}  // namespace quire::bench
