// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/worker_service.h"

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <memory>
#include <optional>
#include <utility>

#include "common/wire/message.h"
#include "gpuworker/service/call_tenant.h"
#include "transport/grpc/grpc_convert.h"

namespace quire::worker {
namespace {

/// Between two looks at whether the client of a call that waits is still there.
constexpr Duration kLookAfter = std::chrono::milliseconds(20);
/// Upper bound of the time that an error takes to the caller.
constexpr Duration kTimeForLastWord = std::chrono::milliseconds(250);

constexpr char kGenerate[] = "/quire.v1.Worker/Generate";
constexpr char kIngest[] = "/quire.v1.Worker/Ingest";

Status Cancelled() {
  return MakeStatus(StatusCode::kCancelled, "the client cancelled, or its deadline has passed");
}

/// The time at which a call without an answer tells its caller the reason.
TimePoint TimeOfLastWord(const grpc::ServerContext& context) {
  const TimePoint end = DeadlineFromGrpc(context.raw_deadline());
  return end == TimePoint::max() ? end : end - kTimeForLastWord;
}

/// One token's message.
StatusOr<v1::GenerateReply> TokenReply(TokenId token, TextStream* text) {
  v1::GenerateReply reply;
  reply.set_token_id(token);
  if (text != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(*reply.mutable_text(), text->Add(token));
  }
  return reply;
}

/// The message after the last token.
v1::GenerateReply Totals(const BatchResult& result, size_t prompt_tokens,
                         const std::string& policy) {
  v1::GenerateReply last;
  last.set_done(true);
  last.set_num_prompt_tokens(prompt_tokens);
  last.set_num_new_tokens(result.num_new_tokens);
  last.set_bytes_moved(result.stats.moved.total());
  last.set_bytes_digests(result.stats.moved.digests);
  last.set_bytes_at_open(result.stats.moved.at_open);
  last.set_bytes_full(result.stats.moved.full);
  last.set_budget_ratio(result.stats.budget_ratio());
  last.set_policy(policy);
  last.set_units_recalled(result.stats.units_missed);
  last.set_units_from_host(result.stats.units_from_host);
  last.set_units_landed(result.stats.units_landed);
  return last;
}

/// The message after the last token of an answer over several documents.
v1::GenerateReply Totals(const BatchResult& result, const ReuseStats& stats, ReuseMethod method) {
  v1::GenerateReply last;
  last.set_done(true);
  last.set_num_prompt_tokens(stats.question_tokens);
  last.set_num_new_tokens(result.num_new_tokens);
  last.set_bytes_moved(stats.bytes_read);
  last.set_budget_ratio(stats.attended_ratio);
  TotalsToProto(stats, method, last.mutable_documents());
  return last;
}

}  // namespace

WorkerService::WorkerService(Batch* batch, ReuseQueue* reuse, const Engine* engine,
                             GenerateDefaults defaults, const TextOfModel& text, std::string tenant,
                             CallerCheck* callers, GrpcCalls* calls, Health* health,
                             const Tracer* tracer)
    : batch_(batch),
      reuse_(reuse),
      ingest_(engine, text, tenant, calls),
      defaults_(std::move(defaults)),
      text_(text),
      tenant_(std::move(tenant)),
      callers_(callers),
      calls_(calls),
      health_(health),
      tracer_(tracer) {
  // As the generated v1::Worker::Service does, but that a call counts until its answer was sent.
  using Handler =
      grpc::internal::ServerStreamingHandler<WorkerService, v1::GenerateRequest, v1::GenerateReply>;
  auto handler = std::make_unique<Handler>(
      [](WorkerService* self, grpc::ServerContext* context, const v1::GenerateRequest* request,
         grpc::ServerWriter<v1::GenerateReply>* writer) {
        return self->Generate(context, request, writer);
      },
      this);
  AddMethod(new grpc::internal::RpcServiceMethod(  // The service takes it over.
      kGenerate, grpc::internal::RpcMethod::SERVER_STREAMING,
      calls_->Count(std::move(handler)).release()));
  using Ingester =
      grpc::internal::BidiStreamingHandler<WorkerService, v1::IngestRequest, v1::IngestReply>;
  auto ingester = std::make_unique<Ingester>(
      [](WorkerService* self, grpc::ServerContext* context, IngestHandler::Stream* stream) {
        return self->Ingest(context, stream);
      },
      this);
  AddMethod(new grpc::internal::RpcServiceMethod(kIngest, grpc::internal::RpcMethod::BIDI_STREAMING,
                                                 calls_->Count(std::move(ingester)).release()));
}

grpc::Status WorkerService::Generate(grpc::ServerContext* context,
                                     const v1::GenerateRequest* request,
                                     grpc::ServerWriter<v1::GenerateReply>* writer) {
  return Serve(context, kGenerate, [&] { return Run(context, *request, writer); });
}

grpc::Status WorkerService::Ingest(grpc::ServerContext* context, IngestHandler::Stream* stream) {
  return Serve(context, kIngest, [&] { return ingest_.Run(context, stream); });
}

grpc::Status WorkerService::Serve(grpc::ServerContext* context, std::string_view path,
                                  const std::function<Status()>& run) {
  SpanScope traced(quire::Serve(tracer_, path.substr(1), TraceOf(*context)));
  const Status served = Admitted(context, run);
  traced.span().End(served);
  calls_->Answering(context, 0);
  return EndCall(served, context);
}

Status WorkerService::Admitted(grpc::ServerContext* context, const std::function<Status()>& run) {
  QUIRE_RETURN_IF_ERROR(callers_->Check(*context, tenant_));
  QUIRE_RETURN_IF_ERROR(calls_->Admit(context, tenant_));
  calls_taken_.Add();
  calls_running_.Add();
  Status status = run();
  if (!status.ok()) calls_failed_.Add();
  if (IsPermissionDenied(status)) NoteTo(health_, Trouble::kCallerUnproven, Message(status));
  if (IsResourceExhausted(status)) NoteTo(health_, Trouble::kCallRefused, Message(status));
  calls_running_.Sub(1);
  return status;
}

Status WorkerService::LastWord(const grpc::ServerContext& context) const {
  if (health_ == nullptr || SystemClock().Now() < TimeOfLastWord(context)) return OkStatus();
  for (const Health::Degradation& degradation : health_->Degradations()) {
    if (degradation.trouble == Trouble::kStoreUnreached) return Unavailable(degradation.detail);
  }
  return OkStatus();
}

void WorkerService::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("worker_calls_refused", "Calls refused because enough were there.",
                calls_->refused());
  visit.Counter("worker_calls_stalled",
                "Calls ended because the client did not take the answer in time.",
                calls_->stalled());
  visit.Counter("worker_calls_failed", "Calls taken that ended with an error or were cancelled.",
                calls_failed_.Get());
  visit.Counter("worker_calls_unauthenticated",
                "Calls that did not prove their tenant, and were refused.", callers_->refused());
  visit.Counter("worker_calls", "Calls taken.", calls_taken_.Get());
  visit.Gauge("worker_calls_running", "Calls that are there.", calls_running_.Get());
}

Status WorkerService::Write(grpc::ServerContext* context, const v1::GenerateReply& reply,
                            grpc::ServerWriter<v1::GenerateReply>* writer) const {
  if (const Status whole = wire::CheckText(reply); !whole.ok()) {
    return Internal("the reply cannot be sent: ", Message(whole));
  }
  calls_->Answering(context, reply.ByteSizeLong());
  if (!writer->Write(reply)) return Cancelled();
  calls_->Taken(context);
  return OkStatus();
}

Status WorkerService::Forward(grpc::ServerContext* context, BatchStream& stream, TextStream* text,
                              grpc::ServerWriter<v1::GenerateReply>* writer) const {
  for (;;) {
    if (context->IsCancelled()) return Cancelled();
    if (!stream.WaitFor(kLookAfter)) {
      QUIRE_RETURN_IF_ERROR(LastWord(*context));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> token, stream.Next());
    if (!token) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const v1::GenerateReply reply, TokenReply(*token, text));
    QUIRE_RETURN_IF_ERROR(Write(context, reply, writer));
  }
}

Status WorkerService::Answer(grpc::ServerContext* context, BatchStream& stream,
                             const std::function<v1::GenerateReply()>& totals,
                             grpc::ServerWriter<v1::GenerateReply>* writer) const {
  std::optional<TextStream> text;
  if (text_.tokenizer != nullptr) text.emplace(*text_.tokenizer);
  TextStream* const text_or_null = text ? &*text : nullptr;
  if (const Status status = Forward(context, stream, text_or_null, writer); !status.ok()) {
    stream.Cancel();
    return status;
  }
  v1::GenerateReply last = totals();
  if (text) last.set_text(text->Finish());
  return Write(context, last, writer);
}

Status WorkerService::RunInBatch(grpc::ServerContext* context, GenerateCall call,
                                 grpc::ServerWriter<v1::GenerateReply>* writer) const {
  const size_t prompt_tokens = call.prompt.size();
  const std::string policy = call.retrieval.policy;
  QUIRE_ASSIGN_OR_RETURN(const auto stream, batch_->Submit({.document = std::move(call.document),
                                                            .prompt = std::move(call.prompt),
                                                            .retrieval = std::move(call.retrieval),
                                                            .params = std::move(call.params),
                                                            .find_by = TimeOfLastWord(*context)}));
  return Answer(
      context, *stream, [&] { return Totals(stream->result(), prompt_tokens, policy); }, writer);
}

Status WorkerService::RunOverDocuments(grpc::ServerContext* context, GenerateCall call,
                                       grpc::ServerWriter<v1::GenerateReply>* writer) const {
  const ReuseMethod method = call.documents->options.method;
  const std::string policy = call.retrieval.policy;
  call.documents->options.retrieval = std::move(call.retrieval);
  QUIRE_ASSIGN_OR_RETURN(const auto answer,
                         reuse_->Submit({.documents = std::move(call.documents->names),
                                         .question = std::move(call.prompt),
                                         .options = std::move(call.documents->options),
                                         .params = std::move(call.params)}));
  return Answer(
      context, answer->stream,
      [&] {
        v1::GenerateReply last = Totals(answer->stream.result(), answer->stats(), method);
        last.set_policy(policy);
        return last;
      },
      writer);
}

Status WorkerService::Run(grpc::ServerContext* context, const v1::GenerateRequest& request,
                          grpc::ServerWriter<v1::GenerateReply>* writer) const {
  QUIRE_RETURN_IF_ERROR(CheckCallTenant(request.tenant(), tenant_));
  QUIRE_ASSIGN_OR_RETURN(GenerateCall call, ParseGenerate(request, defaults_, text_,
                                                          SystemClock().UnixMicros() / 1'000'000));
  return call.documents ? RunOverDocuments(context, std::move(call), writer)
                        : RunInBatch(context, std::move(call), writer);
}

}  // namespace quire::worker
