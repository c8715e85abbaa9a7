// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/remote_worker.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <optional>

#include "client/retry.h"
#include "common/base/random.h"
#include "common/base/trace/span.h"
#include "common/wire/limits.h"
#include "common/wire/message.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"

namespace quire::cli {
namespace {

constexpr char kGenerate[] = "/quire.v1.Worker/Generate";

/// Names the worker and, when it cannot be reached, says how to start one.
Status Advise(const Status& status, const std::string& address, bool answered) {
  const Status named = Annotate(status, "the worker at ", address);
  if (answered || !IsUnavailable(named)) return named;
  return Unavailable(Message(named), "\nStart one with: quire worker --listen ", address);
}

void TakeTotals(const v1::GenerateReply& reply, WorkerAnswer* answer) {
  answer->prompt_tokens = reply.num_prompt_tokens();
  answer->moved.at_open = reply.bytes_at_open();
  answer->moved.digests = reply.bytes_digests();
  answer->moved.units = reply.bytes_moved() - reply.bytes_at_open() - reply.bytes_digests();
  answer->moved.full = reply.bytes_full();
  answer->budget_ratio = reply.budget_ratio();
  answer->policy = reply.policy();
  answer->units_recalled = reply.units_recalled();
  answer->units_landed = reply.units_landed();
  answer->units_from_host = reply.units_from_host();
  answer->documents = reply.documents();
}

/// Starts a call whose messages are bytes. gRPC reports a reply that cannot be parsed only at the
/// end of the call, which may be late.
std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> StartGenerate(grpc::Channel* channel,
                                                                    const grpc::ByteBuffer& request,
                                                                    grpc::ClientContext* context) {
  static const grpc::internal::RpcMethod method(kGenerate,
                                                grpc::internal::RpcMethod::SERVER_STREAMING);
  return std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>>(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel, method, context,
                                                                    request));
}

Status Parse(const grpc::ByteBuffer& buffer, v1::GenerateReply* reply) {
  grpc::Slice bytes;
  if (const grpc::Status status = buffer.DumpToSingleSlice(&bytes); !status.ok()) {
    return FromGrpc(status);
  }
  return wire::Decode({reinterpret_cast<const char*>(bytes.begin()), bytes.size()}, reply);
}

/// Adds to `*answer` what one message brings, and tells of its text.
void Take(const v1::GenerateReply& reply, const AskWorkerOptions& options, WorkerAnswer* answer) {
  if (reply.done()) {
    TakeTotals(reply, answer);
    if (options.on_token && !reply.text().empty()) options.on_token(std::nullopt, reply.text());
    return;
  }
  answer->tokens.push_back(reply.token_id());
  if (options.on_token) options.on_token(reply.token_id(), reply.text());
}

/// One attempt. `*answer` has the tokens before an error. `*answered` says whether the error is
/// the worker's own.
Status AskOnce(grpc::Channel* channel, const grpc::ByteBuffer& request, Duration timeout,
               const AskWorkerOptions& options, const TraceContext& trace, WorkerAnswer* answer,
               bool* answered) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  AddToken(options.token, &context);
  AddTrace(trace, &context);
  const auto stream = StartGenerate(channel, request, &context);
  grpc::ByteBuffer bytes;
  bool done = false;
  Status unreadable;
  while (!done && unreadable.ok() && stream->Read(&bytes)) {
    v1::GenerateReply reply;
    unreadable = Parse(bytes, &reply);
    if (!unreadable.ok()) break;
    done = reply.done();
    Take(reply, options, answer);
  }
  // Whatever would follow is not wanted, and the worker is not to be waited for.
  if (done || !unreadable.ok()) context.TryCancel();
  const grpc::Status status = stream->Finish();
  *answered = WasAnswered(context);
  if (done) return OkStatus();
  QUIRE_RETURN_IF_ERROR(unreadable);
  if (!status.ok()) return UnreachedAtDeadline(EndOfCall(status, context), *channel);
  return DataLoss("the answer ended without totals");
}

StatusOr<WorkerAnswer> AskWithRetries(const std::string& address,
                                      const v1::GenerateRequest& request,
                                      const AskWorkerOptions& options, const TraceContext& trace) {
  Clock& clock = options.clock != nullptr ? *options.clock : SystemClock();
  const TimePoint deadline = clock.Now() + options.timeout;
  QUIRE_ASSIGN_OR_RETURN(auto channel, MakeGrpcChannel(address, wire::kDefaultMaxMessageBytes));
  std::string bytes;
  QUIRE_RETURN_IF_ERROR(wire::Encode(request, &bytes));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer message(&slice, 1);
  const RetryOptions retry{.unreachable_for = options.unreachable_for};
  internal::Reachability worker;
  internal::Attempts attempts(retry, SystemRandom(), worker, deadline);
  for (;;) {
    WorkerAnswer answer;
    bool answered = false;
    const Status status = Advise(
        AskOnce(channel.get(), message, deadline - clock.Now(), options, trace, &answer, &answered),
        address, answered);
    if (status.ok()) return answer;
    const bool may_repeat = IsRetriable(status, internal::Repeat::kSafe) && answer.tokens.empty();
    if (!may_repeat) return attempts.End(status);
    QUIRE_ASSIGN_OR_RETURN(const TimePoint next, attempts.Next(status, clock.Now()));
    clock.Sleep(next - clock.Now());
  }
}

}  // namespace

StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 const AskWorkerOptions& options) {
  Span span = ChildOfCurrent(std::string_view(kGenerate).substr(1), SpanKind::kClient);
  auto answer = AskWithRetries(address, request, options, span.context());
  span.End(answer.status());
  return answer;
}

}  // namespace quire::cli
