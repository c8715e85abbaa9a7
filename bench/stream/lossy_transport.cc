// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/lossy_transport.h"

#include <optional>
#include <utility>

namespace quire::bench {

/// Takes the whole reply when it is first asked for, and hands out what is to be heard of it.
class LossyTransport::LossyCall final : public PendingCall {
 public:
  LossyCall(LossyTransport* lossy, std::unique_ptr<PendingCall> call, Fault fault)
      : lossy_(lossy), call_(std::move(call)), fault_(fault) {}

  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    if (!taken_) QUIRE_RETURN_IF_ERROR(TakeAll(deadline));
    if (fault_ == Fault::kDrop) return Lost(fault_);
    if (std::exchange(late_, false)) return Lost(Fault::kDelay);
    if (next_ == parts_.size()) return std::nullopt;
    return std::move(parts_[next_++]);
  }
  void Cancel() override { call_->Cancel(); }

 private:
  Status TakeAll(TimePoint deadline) {
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(auto part, call_->Next(deadline));
      if (!part) break;
      parts_.push_back(*std::move(part));
    }
    taken_ = true;
    late_ = fault_ == Fault::kDelay;
    Parts before = lossy_->Exchange(parts_);
    if (fault_ == Fault::kRepeat && !before.empty()) parts_ = std::move(before);
    return OkStatus();
  }

  LossyTransport* const lossy_;
  const std::unique_ptr<PendingCall> call_;
  const Fault fault_;
  bool taken_ = false;
  bool late_ = false;
  Parts parts_;
  size_t next_ = 0;
};

LossyTransport::LossyTransport(std::shared_ptr<Transport> transport, Options options)
    : transport_(std::move(transport)), options_(std::move(options)), random_(options_.seed) {}

LossyTransport::~LossyTransport() = default;

LossyTransport::Faults LossyTransport::faults() const {
  MutexLock lock(mutex_);
  return faults_;
}

StatusOr<std::unique_ptr<PendingCall>> LossyTransport::Start(std::string_view method,
                                                             CallMessage request,
                                                             const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(auto call, transport_->Start(method, std::move(request), options));
  if (method != options_.method) return call;
  return std::make_unique<LossyCall>(this, std::move(call), NextFault());
}

Status LossyTransport::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                            const CallOptions& options) {
  if (method != options_.method) return transport_->Call(method, request, reply, options);
  const Fault fault = NextFault();
  CallMessage part;
  QUIRE_RETURN_IF_ERROR(transport_->Call(method, request, &part, options));
  Parts before = Exchange({part});
  if (fault == Fault::kDrop || fault == Fault::kDelay) return Lost(fault);
  *reply = fault == Fault::kRepeat && !before.empty() ? before.front() : std::move(part);
  return OkStatus();
}

LossyTransport::Fault LossyTransport::NextFault() {
  MutexLock lock(mutex_);
  const double drawn = random_.Uniform();
  if (drawn < options_.drop_rate) {
    ++faults_.dropped;
    return Fault::kDrop;
  }
  if (drawn < options_.drop_rate + options_.delay_rate) {
    ++faults_.delayed;
    return Fault::kDelay;
  }
  if (drawn < options_.drop_rate + options_.delay_rate + options_.repeat_rate) {
    ++faults_.repeated;
    return Fault::kRepeat;
  }
  return Fault::kNone;
}

LossyTransport::Parts LossyTransport::Exchange(Parts parts) {
  MutexLock lock(mutex_);
  return std::exchange(last_, std::move(parts));
}

Status LossyTransport::Lost(Fault fault) {
  return fault == Fault::kDelay ? DeadlineExceeded("the reply is late")
                                : Unavailable("the reply was lost");
}

}  // namespace quire::bench
