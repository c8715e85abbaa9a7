// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_transport.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "transport/frames/message_limit.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"

namespace quire {
namespace {

/// gRPC's message for a call that found no connection, and so was not sent.
constexpr std::string_view kNotSent = "failed to connect to all addresses";
/// Retry delay of any call that was not sent.
constexpr Duration kRetryDialAfter = std::chrono::milliseconds(10);

/// gRPC's message when all threads of the server are taken: the call has not begun.
constexpr std::string_view kNoThread = "Server Threadpool Exhausted";
constexpr Duration kRetryWithoutThread = std::chrono::milliseconds(100);

/// Rewords refusals made by gRPC itself, before our server sees the call.
Status WithRemedy(const Status& status) {
  if (IsResourceExhausted(status) && Message(status) == kNoThread) {
    return WithRetryAfter(ResourceExhausted("every thread of the server is taken; retry later"),
                          kRetryWithoutThread);
  }
  if (!IsResourceExhausted(status) ||
      Message(status).find("message larger than max") == std::string_view::npos) {
    return status;
  }
  return ResourceExhausted("the request is over the server's max_message_bytes: ", Message(status),
                           "; send less at a time, or raise the limit at both ends");
}

}  // namespace

StatusOr<std::unique_ptr<GrpcTransport>> GrpcTransport::Create(const Options& options) {
  QUIRE_ASSIGN_OR_RETURN(auto channel, MakeGrpcChannel(options.address, options.max_message_bytes));
  return std::unique_ptr<GrpcTransport>(new GrpcTransport(options, std::move(channel)));
}

GrpcTransport::GrpcTransport(const Options& options, std::shared_ptr<grpc::Channel> channel)
    : options_(options), channel_(std::move(channel)) {}

GrpcTransport::~GrpcTransport() = default;

TransportCapabilities GrpcTransport::capabilities() const {
  return {.name = "grpc", .max_message_bytes = options_.max_message_bytes, .same_process = false};
}

/// Owns the thread that waits for the answer. The transport outlives it.
class GrpcTransport::UnaryCall final : public PendingCall {
 public:
  UnaryCall(const GrpcTransport* transport, std::string_view method, CallMessage request,
            const CallOptions& options)
      : thread_(
            [this, transport, method = std::string(method), request = std::move(request), options] {
              CallMessage reply;
              Status status = transport->Run(method, request, &reply, options, &context_);
              if (!status.ok() && cancelled_) status = Status(StatusCode::kCancelled, "cancelled");
              MutexLock lock(mutex_);
              status_ = std::move(status);
              reply_ = std::move(reply);
              done_ = true;
              changed_.NotifyAll();
            }) {}
  ~UnaryCall() override {
    context_.TryCancel();
    thread_.join();
  }

  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    MutexLock lock(mutex_);
    for (TimePoint now = SystemClock().Now(); !done_; now = SystemClock().Now()) {
      if (now >= deadline) return DeadlineExceeded("no answer yet");
      (void)changed_.WaitFor(mutex_, std::min<Duration>(deadline - now, kLongestWait));
    }
    QUIRE_RETURN_IF_ERROR(status_);
    return std::exchange(reply_, std::nullopt);
  }
  void Cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }

 private:
  grpc::ClientContext context_;
  std::atomic<bool> cancelled_ = false;
  Mutex mutex_;
  CondVar changed_;
  bool done_ QUIRE_GUARDED_BY(mutex_) = false;
  Status status_ QUIRE_GUARDED_BY(mutex_);
  std::optional<CallMessage> reply_ QUIRE_GUARDED_BY(mutex_);
  std::thread thread_;  ///< Last member, because it uses the others.
};

StatusOr<std::unique_ptr<PendingCall>> GrpcTransport::Start(std::string_view method,
                                                            CallMessage request,
                                                            const CallOptions& options) {
  if (options.landing != nullptr) {
    return InvalidArgument("the landing was made by another transport");
  }
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(request, options_.max_message_bytes, "request"));
  return std::make_unique<UnaryCall>(this, method, std::move(request), options);
}

Status GrpcTransport::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                           const CallOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(request, options_.max_message_bytes, "request"));
  grpc::ClientContext context;
  return Run(method, request, reply, options, &context);
}

Status GrpcTransport::Run(std::string_view method, const CallMessage& request, CallMessage* reply,
                          const CallOptions& options, grpc::ClientContext* context) const {
  const TimePoint deadline = SystemClock().Now() + options.timeout;
  context->set_deadline(DeadlineAfter(options.timeout));
  context->AddMetadata(kTenantMetadata, options.tenant);
  AddToken(options_.token, context);
  if (options.priority != Priority::kNormal) {
    context->AddMetadata(kPriorityMetadata, std::string(PriorityName(options.priority)));
  }
  AddTrace(options.trace, context);

  std::string path = "/";
  path += method;
  const grpc::internal::RpcMethod rpc(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ByteBuffer answer;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), rpc, context, ToByteBuffer(request), &answer);
  const Status ended = UnreachedAtDeadline(EndOfCall(status, *context), *channel_);
  if (IsUnavailable(ended)) {
    if (WasAnswered(*context)) return Annotate(ended, "the server at ", options_.address);
    LetConnect(*channel_, deadline);
    const Status lost = Annotate(ended, "the server at ", options_.address, " cannot be reached");
    const bool sent = Message(lost).find(kNotSent) == std::string_view::npos;
    return sent ? lost : WithRetryAfter(lost, kRetryDialAfter);
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED && !WasAnswered(*context)) {
    // Callers that cancelled the call themselves ignore this text.
    return Unavailable("the server at ", options_.address,
                       " broke the call off: it answers too many at a time, or nobody took the "
                       "answer in time");
  }
  if (!ended.ok()) return WithRemedy(ended);
  if (SystemClock().Now() >= deadline)
    return DeadlineExceeded(method, ": the answer came too late");

  CallMessage message;
  if (const Status read = FromByteBuffer(answer, &message); !read.ok()) {
    return Internal("the server's reply to ", method, " cannot be parsed: ", Message(read));
  }
  *reply = std::move(message);
  return OkStatus();
}

}  // namespace quire
