// SPDX-License-Identifier: Apache-2.0
#include "client/cli/remote_worker.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>

#include "client/retry.h"
#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "common/transport/grpc_auth.h"
#include "common/transport/grpc_convert.h"
#include "quire/v1/worker.grpc.pb.h"

namespace quire::cli {
namespace {

/// Of a worker that cannot be reached: a person is waiting to be told.
constexpr uint32_t kMaxUnreachableAttempts = 4;

/// Names the worker and, when it cannot be reached, says how to start one.
Status Advise(const Status& status, const std::string& address) {
  const Status named = Annotate(status, "the worker at ", address);
  if (!absl::IsUnavailable(named)) return named;
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

/// One attempt. What came before an error is in `*answer`.
Status AskOnce(v1::Worker::Stub* stub, const v1::GenerateRequest& request, Duration timeout,
               const AskWorkerOptions& options, WorkerAnswer* answer) {
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
  if (done) return OkStatus();
  if (!status.ok()) return EndOfCall(status, context);
  return DataLoss("the answer ended without totals");
}

bool MayRepeat(const Status& status, const WorkerAnswer& answer, uint32_t attempt) {
  if (!IsRetriable(status, Repeat::kSafe) || !answer.tokens.empty()) return false;
  return RetryAfter(status) || attempt < kMaxUnreachableAttempts;
}

}  // namespace

StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 const AskWorkerOptions& options) {
  Clock& clock = options.clock != nullptr ? *options.clock : SystemClock();
  const TimePoint deadline = clock.Now() + options.timeout;
  const auto stub =
      v1::Worker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  for (uint32_t attempt = 1;; ++attempt) {
    WorkerAnswer answer;
    const Status status = AskOnce(stub.get(), request, deadline - clock.Now(), options, &answer);
    if (status.ok()) return answer;
    if (!MayRepeat(status, answer, attempt)) return Advise(status, address);
    const Duration wait = WaitAfter(status, {}, attempt, SystemRandom());
    if (clock.Now() + wait >= deadline) {
      return DeadlineExceeded(
          "the worker at ", address,
          ": the deadline leaves no time for another attempt; the last said: ", Message(status));
    }
    clock.Sleep(wait);
  }
}

}  // namespace quire::cli
