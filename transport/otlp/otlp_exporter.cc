// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/otlp_exporter.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/net_address.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"
#include "transport/otlp/otlp_convert.h"

namespace quire {
namespace {

constexpr char kExport[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr Duration kBetweenReports = std::chrono::minutes(1);

/// True for the codes that OTLP says to send again after.
bool MayHelpAgain(StatusCode code) {
  switch (code) {
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnavailable:
    case StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

/// Parses the answer; one that cannot be parsed says nothing against the spans.
uint64_t RejectedSpans(const grpc::ByteBuffer& answer) {
  grpc::Slice bytes;
  otlp::ExportTraceServiceResponse response;
  if (!answer.Valid() || !answer.DumpToSingleSlice(&bytes).ok()) return 0;
  if (!response.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(0, response.partial_success().rejected_spans()));
}

}  // namespace

StatusOr<std::unique_ptr<OtlpExporter>> OtlpExporter::Start(const OtlpSettings& settings,
                                                            Report report) {
  QUIRE_ASSIGN_OR_RETURN(const NetAddress address, NetAddress::ParseServer(settings.address));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel =
      grpc::CreateCustomChannel(GrpcTarget(address), grpc::InsecureChannelCredentials(), arguments);
  return std::unique_ptr<OtlpExporter>(
      new OtlpExporter(settings, std::move(channel), std::move(report)));
}

OtlpExporter::OtlpExporter(const OtlpSettings& settings, std::shared_ptr<grpc::Channel> channel,
                           Report report)
    : settings_(settings),
      channel_(std::move(channel)),
      report_(std::move(report)),
      queue_(
          {.queue = settings.queue_spans, .batch = settings.batch_spans, .delay = settings.delay}),
      thread_([this] { Run(); }) {}

OtlpExporter::~OtlpExporter() {
  queue_.End();
  {
    const TimePoint end = SystemClock().Now() + kTimeAtEnd;
    MutexLock lock(mutex_);
    for (TimePoint now = SystemClock().Now(); !finished_ && now < end; now = SystemClock().Now()) {
      (void)finished_changed_.WaitFor(mutex_, end - now);
    }
    given_up_ = true;
    if (call_ != nullptr) call_->TryCancel();
  }
  thread_.join();
}

void OtlpExporter::Run() {
  for (;;) {
    const std::vector<SpanRecord> spans = queue_.Next();
    if (spans.empty()) break;
    SendBatch(SpansToProto(spans, settings_.resource).SerializeAsString(), spans.size());
  }
  MutexLock lock(mutex_);
  finished_ = true;
  finished_changed_.NotifyAll();
}

void OtlpExporter::SendBatch(const std::string& request, uint64_t spans) {
  const TimePoint end = SystemClock().Now() + kTimeOfBatch;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    uint64_t rejected = 0;
    const Status sent = SendOnce(request, &rejected);
    if (sent.ok()) {
      rejected = std::min(rejected, spans);
      exported_.Add(spans - rejected);
      queue_.Drop(rejected);
      if (rejected > 0) Tell("the collector refused spans");
      return;
    }
    failed_.Add();
    const bool again = MayHelpAgain(sent.code()) && SystemClock().Now() + pause < end;
    if (!again || queue_.AwaitEnd(pause)) {
      queue_.Drop(spans);
      return Tell(Message(sent));
    }
    Tell(Message(sent));
  }
}

Status OtlpExporter::SendOnce(const std::string& request, uint64_t* rejected) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(settings_.timeout));
  for (const auto& [key, value] : settings_.headers) context.AddMetadata(key, value);
  {
    MutexLock lock(mutex_);
    if (given_up_) return MakeStatus(StatusCode::kCancelled, "there was no time left to send");
    call_ = &context;
  }
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  const grpc::internal::RpcMethod method(kExport, grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ByteBuffer answer;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), method, &context, message, &answer);
  {
    MutexLock lock(mutex_);
    call_ = nullptr;
  }
  if (!status.ok()) return FromGrpc(status);
  *rejected = RejectedSpans(answer);
  return OkStatus();
}

void OtlpExporter::Tell(std::string_view why) {
  const TimePoint now = SystemClock().Now();
  if (told_at_ && now - *told_at_ < kBetweenReports) return;
  told_at_ = now;
  if (report_) report_(why, dropped());
}

void OtlpExporter::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("trace_spans_exported", "Spans that the collector took.", exported());
  visit.Counter("trace_spans_dropped",
                "Spans that were not sent: the queue was full, a trace had too many, or the "
                "collector was away or refused them.",
                dropped());
  visit.Counter("trace_exports_failed", "Attempts to send spans that failed.", failed_.Get());
}

}  // namespace quire
