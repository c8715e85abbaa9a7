// SPDX-License-Identifier: Apache-2.0
#include "client/cli/remote_worker.h"

#include <grpcpp/client_context.h>

#include <memory>

#include "client/retry.h"
#include "common/base/random.h"
#include "common/transport/grpc_auth.h"
#include "common/transport/grpc_channel.h"
#include "common/transport/grpc_convert.h"
#include "common/wire/limits.h"
#include "quire/v1/worker.grpc.pb.h"

namespace quire::cli {
namespace {

/// Names the worker and, when it cannot be reached, says how to start one.
Status Advise(const Status& status, const std::string& address, bool answered) {
  const Status named = Annotate(status, "the worker at ", address);
  if (answered || !absl::IsUnavailable(named)) return named;
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
}

/// One attempt. What came before an error is in `*answer`, and whether the error is the worker's
/// own in `*answered`.
Status AskOnce(v1::Worker::Stub* stub, const v1::GenerateRequest& request, Duration timeout,
               const AskWorkerOptions& options, WorkerAnswer* answer, bool* answered) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  AddToken(options.token, &context);
  const auto stream = stub->Generate(&context, request);
  v1::GenerateReply reply;
  bool done = false;
  while (!done && stream->Read(&reply)) {
    done = reply.done();
    if (done) {
      TakeTotals(reply, answer);
    } else {
      answer->tokens.push_back(reply.token_id());
      if (options.on_token) options.on_token(reply.token_id(), reply.text());
    }
  }
  if (done) context.TryCancel();  // Whatever would follow the totals is not wanted.
  const grpc::Status status = stream->Finish();
  *answered = WasAnswered(context);
  if (done) return OkStatus();
  if (!status.ok()) return EndOfCall(status, context);
  return DataLoss("the answer ended without totals");
}

}  // namespace

StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 const AskWorkerOptions& options) {
  Clock& clock = options.clock != nullptr ? *options.clock : SystemClock();
  const TimePoint deadline = clock.Now() + options.timeout;
  QUIRE_ASSIGN_OR_RETURN(auto channel, MakeGrpcChannel(address, wire::kDefaultMaxMessageBytes));
  const auto stub = v1::Worker::NewStub(std::move(channel));
  const RetryOptions retry{.unreachable_for = options.unreachable_for};
  Reachability worker;
  Attempts attempts(retry, SystemRandom(), worker, deadline);
  for (;;) {
    WorkerAnswer answer;
    bool answered = false;
    const Status status =
        AskOnce(stub.get(), request, deadline - clock.Now(), options, &answer, &answered);
    if (status.ok()) return answer;
    const bool may_repeat = IsRetriable(status, Repeat::kSafe) && answer.tokens.empty();
    if (!may_repeat) return Advise(status, address, answered);
    const auto next = attempts.Next(status, clock.Now());
    if (!next.ok()) return Advise(next.status(), address, answered);
    clock.Sleep(*next - clock.Now());
  }
}

}  // namespace quire::cli
