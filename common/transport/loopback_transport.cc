// SPDX-License-Identifier: Apache-2.0
#include "common/transport/loopback_transport.h"

#include <utility>

#include "common/transport/message_limit.h"

namespace quire {

LoopbackTransport::LoopbackTransport(CallHandler* handler, const Options& options)
    : handler_(handler),
      max_message_bytes_(options.max_message_bytes),
      clock_(options.clock != nullptr ? *options.clock : SystemClock()) {}

TransportCapabilities LoopbackTransport::capabilities() const {
  return {.name = "loopback", .max_message_bytes = max_message_bytes_, .same_process = true};
}

Status LoopbackTransport::Call(std::string_view method, const CallMessage& request,
                               CallMessage* reply, const CallOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(request, max_message_bytes_, "request"));
  if (!Enter()) return Unavailable("the server in this process has been closed");
  CallMessage answer;
  const Status status = Handle(method, request, &answer, options);
  Leave();
  if (status.ok()) *reply = std::move(answer);
  return status;
}

Status LoopbackTransport::Handle(std::string_view method, const CallMessage& request,
                                 CallMessage* reply, const CallOptions& options) {
  const TimePoint deadline = clock_.Now() + options.timeout;
  const Status status = handler_->Handle({options.tenant, deadline}, method, request, reply);
  if (clock_.Now() >= deadline) {
    return DeadlineExceeded(method, ": no answer within ",
                            std::chrono::duration<double>(options.timeout).count(), " s");
  }
  QUIRE_RETURN_IF_ERROR(status);
  return CheckMessageBytes(*reply, max_message_bytes_, "reply");
}

bool LoopbackTransport::Enter() {
  MutexLock lock(mutex_);
  if (!closed_) ++running_;
  return !closed_;
}

void LoopbackTransport::Leave() {
  MutexLock lock(mutex_);
  if (--running_ == 0) idle_.NotifyAll();
}

void LoopbackTransport::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  while (running_ > 0) idle_.Wait(mutex_);
}

}  // namespace quire
