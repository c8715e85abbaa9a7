// SPDX-License-Identifier: Apache-2.0
#include "client/cli/remote_worker.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>

#include "common/transport/grpc_convert.h"
#include "quire/v1/worker.grpc.pb.h"

namespace quire::cli {
namespace {

/// Names the worker and, when it cannot be reached, says how to start one.
Status Advise(const Status& status, const std::string& address) {
  const Status named = Annotate(status, "the worker at ", address);
  if (!absl::IsUnavailable(named)) return named;
  return Unavailable(Message(named), "\nStart one with: quire worker --listen ", address);
}

}  // namespace

StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 Duration timeout) {
  const auto stub =
      v1::Worker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  const auto stream = stub->Generate(&context, request);
  WorkerAnswer answer;
  v1::GenerateReply reply;
  bool done = false;
  while (!done && stream->Read(&reply)) {
    done = reply.done();
    if (done) {
      answer.prompt_tokens = reply.num_prompt_tokens();
      answer.bytes_moved = reply.bytes_moved();
    } else {
      answer.text += reply.text();
      answer.tokens.push_back(reply.token_id());
    }
  }
  if (done) context.TryCancel();  // Whatever would follow the totals is not wanted.
  const grpc::Status status = stream->Finish();
  if (!done && !status.ok()) return Advise(FromGrpc(status), address);
  if (!done) return DataLoss("the worker at ", address, " ended its answer without totals");
  return answer;
}

}  // namespace quire::cli
