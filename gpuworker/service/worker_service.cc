// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/worker_service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/retry_hint.h"
#include "common/transport/grpc_convert.h"

namespace quire::worker {
namespace {

/// Tokens of the prompt between two looks at whether the client is still there.
constexpr size_t kPromptPartTokens = 64;

constexpr Duration kRetryWhenBusy = std::chrono::milliseconds(100);

Status Cancelled() {
  return MakeStatus(StatusCode::kCancelled, "the client cancelled, or its deadline has passed");
}

Status AppendPrompt(const grpc::ServerContext& context, std::span<const TokenId> prompt,
                    Sequence* sequence) {
  for (size_t at = 0; at < prompt.size(); at += kPromptPartTokens) {
    if (context.IsCancelled()) return Cancelled();
    const size_t count = std::min(kPromptPartTokens, prompt.size() - at);
    QUIRE_RETURN_IF_ERROR(sequence->Append(prompt.subspan(at, count)));
  }
  return OkStatus();
}

}  // namespace

Status WorkerService::Enter() {
  MutexLock lock(mutex_);
  if (calls_ >= max_calls_) {
    return WithRetryAfter(ResourceExhausted("this worker runs ", max_calls_,
                                            " calls at a time; try again in a moment"),
                          kRetryWhenBusy);
  }
  ++calls_;
  return OkStatus();
}

void WorkerService::Leave() {
  MutexLock lock(mutex_);
  --calls_;
}

grpc::Status WorkerService::Generate(grpc::ServerContext* context,
                                     const v1::GenerateRequest* request,
                                     grpc::ServerWriter<v1::GenerateReply>* writer) {
  if (const Status entered = Enter(); !entered.ok()) return EndCall(entered, context);
  const Status status = Run(*context, *request, writer);
  Leave();
  return EndCall(status, context);
}

v1::GenerateReply WorkerService::TokenReply(TokenId token) const {
  v1::GenerateReply reply;
  reply.set_token_id(token);
  if (tokenizer_ == nullptr) return reply;
  if (auto text = tokenizer_->Decode({&token, 1}); text.ok()) reply.set_text(*std::move(text));
  return reply;
}

Status WorkerService::CheckTenant(const std::string& tenant) const {
  if (tenant.empty() || tenant == tenant_) return OkStatus();
  return PermissionDenied("this worker reads the store as tenant '", tenant_, "', not as '", tenant,
                          "'; ask a worker of that tenant (quire worker --tenant NAME)");
}

Status WorkerService::Run(const grpc::ServerContext& context, const v1::GenerateRequest& request,
                          grpc::ServerWriter<v1::GenerateReply>* writer) const {
  QUIRE_RETURN_IF_ERROR(CheckTenant(request.tenant()));
  QUIRE_ASSIGN_OR_RETURN(GenerateCall call,
                         ParseGenerate(request, engine_->options().retrieval, tokenizer_));
  SequenceOptions options;
  options.retrieval = call.retrieval;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Sequence> sequence,
                         engine_->OpenSequence(call.document, options));
  QUIRE_RETURN_IF_ERROR(sequence->CheckRoom(call.prompt.size()));
  QUIRE_RETURN_IF_ERROR(AppendPrompt(context, call.prompt, sequence.get()));
  bool connected = true;
  call.params.on_token = [&](TokenId token) {
    connected = !context.IsCancelled() && writer->Write(TokenReply(token));
    return connected;
  };
  QUIRE_ASSIGN_OR_RETURN(const Generation generation, sequence->Generate(call.params));
  if (!connected) return Cancelled();
  v1::GenerateReply last;
  last.set_done(true);
  last.set_num_prompt_tokens(call.prompt.size());
  last.set_num_new_tokens(generation.tokens.size());
  const SequenceStats stats = sequence->stats();
  last.set_bytes_moved(stats.moved.total());
  last.set_bytes_digests(stats.moved.digests);
  last.set_bytes_at_open(stats.moved.at_open);
  last.set_bytes_full(stats.moved.full);
  last.set_budget_ratio(stats.budget_ratio());
  last.set_policy(call.retrieval.policy);
  last.set_units_recalled(stats.units_missed);
  last.set_units_from_host(stats.units_from_host);
  return writer->Write(last) ? OkStatus() : Cancelled();
}

}  // namespace quire::worker
