// SPDX-License-Identifier: Apache-2.0
#include "transport/local/loopback_transport.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "transport/frames/message_limit.h"
#include "transport/frames/part_collector.h"
#include "transport/part_pieces.h"
#include "transport/single_reply.h"

namespace quire {
/// Returns the finished parts; deadlines do not matter, because it never waits.
class LoopbackTransport::FinishedCall final : public PendingCall {
 public:
  explicit FinishedCall(Outcome outcome) : outcome_(std::move(outcome)) {}

  StatusOr<std::optional<CallMessage>> Next(TimePoint) override {
    if (cancelled_) return Status(StatusCode::kCancelled, "the caller cancelled the call");
    if (next_ < outcome_.parts.size()) return std::move(outcome_.parts[next_++]);
    QUIRE_RETURN_IF_ERROR(outcome_.status);
    return std::nullopt;
  }
  void Cancel() override { cancelled_ = true; }

 private:
  Outcome outcome_;
  size_t next_ = 0;
  std::atomic<bool> cancelled_{false};
};

LoopbackTransport::LoopbackTransport(CallHandler* handler, const Options& options)
    : handler_(handler),
      max_message_bytes_(options.max_message_bytes),
      part_bytes_(options.part_bytes),
      clock_(options.clock != nullptr ? *options.clock : SystemClock()) {}

TransportCapabilities LoopbackTransport::capabilities() const {
  return {.name = "loopback",
          .max_message_bytes = max_message_bytes_,
          .same_process = true,
          .in_place = true};
}

StatusOr<std::unique_ptr<PendingCall>> LoopbackTransport::Start(std::string_view method,
                                                                CallMessage request,
                                                                const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(Outcome outcome, Run(method, request, options, UINT32_MAX));
  return std::make_unique<FinishedCall>(std::move(outcome));
}

Status LoopbackTransport::Call(std::string_view method, const CallMessage& request,
                               CallMessage* reply, const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(Outcome outcome, Run(method, request, options, 1));
  FinishedCall call(std::move(outcome));
  return TakeSingleReply(call, reply);
}

StatusOr<LoopbackTransport::Outcome> LoopbackTransport::Run(std::string_view method,
                                                            const CallMessage& request,
                                                            const CallOptions& options,
                                                            uint32_t max_parts) {
  if (options.landing != nullptr) {
    return InvalidArgument("the landing was made by another transport");
  }
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(request, max_message_bytes_, "request"));
  if (!Enter()) return Unavailable("the server in this process has been closed");
  Outcome outcome = Handle(method, request, options, max_parts);
  Leave();
  return outcome;
}

LoopbackTransport::Outcome LoopbackTransport::Handle(std::string_view method,
                                                     const CallMessage& request,
                                                     const CallOptions& options,
                                                     uint32_t max_parts) {
  const CallContext context{
      .tenant = options.tenant,
      .deadline = clock_.Now() + options.timeout,
      .priority = options.priority,
      .max_parts = max_parts,
      .part_bytes = max_parts == 1 ? max_message_bytes_ : std::min(part_bytes_, max_message_bytes_),
      .is_control = true,
      .is_node = true,
      .trace = options.trace};
  PartCollector kept(max_parts, max_message_bytes_);
  const Status status = handler_->Handle(context, method, request, kept);
  if (clock_.Now() >= context.deadline) {
    return {{},
            DeadlineExceeded(method, ": no answer within ",
                             std::chrono::duration<double>(options.timeout).count(), " s")};
  }
  if (options.piece_bytes == 0) return {std::move(kept.parts()), status};
  Outcome outcome{{}, status};
  for (CallMessage& part : kept.parts()) {
    for (CallMessage& piece : PiecesOf(std::move(part), options.piece_bytes)) {
      outcome.parts.push_back(std::move(piece));
    }
  }
  return outcome;
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
