// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/method_handler.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>
#include <utility>

#include "transport/frames/message_limit.h"
#include "transport/frames/part_collector.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_calls.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"
#include "transport/grpc/grpc_listening.h"
#include "transport/grpc/grpc_pipe.h"
#include "transport/grpc/grpc_pipe_method.h"
#include "transport/grpc/grpc_shutdown.h"

namespace quire {
namespace {

constexpr int kFewestThreads = 4;

CallContext ContextOf(const grpc::ServerContext& context, uint64_t max_message_bytes) {
  CallContext result{.tenant = TenantOf(context),
                     .deadline = DeadlineFromGrpc(context.raw_deadline()),
                     .part_bytes = max_message_bytes,
                     .is_control = true};
  const auto& metadata = context.client_metadata();
  if (const auto it = metadata.find(kPriorityMetadata); it != metadata.end()) {
    result.priority = PriorityOf({it->second.data(), it->second.size()});
  }
  result.trace = TraceOf(context);
  return result;
}

/// The methods of one service, each answered by the handler as raw bytes.
class HandlerService final : public grpc::Service {
 public:
  HandlerService(CallHandler* handler, CallerCheck* callers, uint64_t max_message_bytes,
                 GrpcCalls* calls)
      : handler_(handler),
        callers_(callers),
        max_message_bytes_(max_message_bytes),
        calls_(calls) {}

  void Add(const std::string& method) {
    auto answer = [method](HandlerService* self, grpc::ServerContext* context,
                           const grpc::ByteBuffer* request, grpc::ByteBuffer* reply) {
      const grpc::Status ended = EndCall(self->Answer(method, context, *request, reply), context);
      self->calls_->Answering(context, ended.ok() ? reply->Length() : 0);
      return ended;
    };
    using Handler =
        grpc::internal::RpcMethodHandler<HandlerService, grpc::ByteBuffer, grpc::ByteBuffer>;
    std::string& path = paths_.emplace_back("/");
    path += method;
    AddMethod(new grpc::internal::RpcServiceMethod(  // The service takes ownership.
        path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
        calls_->Count(std::make_unique<Handler>(answer, this)).release()));
  }
  void Add(GrpcPipeMethod& pipes) { AddMethod(pipes.New()); }

 private:
  Status Answer(std::string_view method, grpc::ServerContext* context,
                const grpc::ByteBuffer& request, grpc::ByteBuffer* reply) {
    CallContext call = ContextOf(*context, max_message_bytes_);
    QUIRE_RETURN_IF_ERROR(callers_->Check(*context, call.tenant));
    call.is_node = callers_->IsNode(*context);
    QUIRE_RETURN_IF_ERROR(calls_->Admit(context, call.tenant));
    CallMessage message;
    QUIRE_RETURN_IF_ERROR(FromByteBuffer(request, &message));
    // Checked here, because streams may have raised gRPC's own limit.
    QUIRE_RETURN_IF_ERROR(CheckMessageBytes(message, max_message_bytes_, "request"));
    PartCollector answer(1, max_message_bytes_);
    QUIRE_RETURN_IF_ERROR(handler_->Handle(call, method, message, answer));
    if (answer.parts().empty()) return Internal(method, " was answered without a reply");
    *reply = ToByteBuffer(answer.parts().front());
    return OkStatus();
  }

  CallHandler* const handler_;
  CallerCheck* const callers_;
  const uint64_t max_message_bytes_;
  GrpcCalls* const calls_;
  std::deque<std::string> paths_;  ///< Stable, because gRPC keeps pointers into them.
};

Status Check(const GrpcServer::Options& options) {
  if (options.max_message_bytes < 1 || options.max_message_bytes > wire::kLargestMaxMessageBytes) {
    return InvalidArgument("max_message_bytes is ", options.max_message_bytes, ": must be 1..",
                           wire::kLargestMaxMessageBytes);
  }
  if (options.max_streams < 0) {
    return InvalidArgument("max_streams is ", options.max_streams, ": must be 0 or more");
  }
  if (options.max_threads < int64_t{kFewestThreads} + options.max_streams) {
    return InvalidArgument("max_threads is ", options.max_threads, ": must be at least ",
                           kFewestThreads, " and one for each of ", options.max_streams,
                           " streams");
  }
  return OkStatus();
}

/// One service for each part of a method name before the '/'. `pipes` may be null.
std::vector<std::unique_ptr<grpc::Service>> ServicesOf(CallHandler* handler, CallerCheck* callers,
                                                       uint64_t max_bytes, GrpcPipeMethod* pipes,
                                                       GrpcCalls* calls) {
  std::map<std::string, std::unique_ptr<HandlerService>> by_name;
  const auto service_of = [&](const std::string& method) -> HandlerService& {
    auto& service = by_name[method.substr(0, method.find('/'))];
    if (service == nullptr)
      service = std::make_unique<HandlerService>(handler, callers, max_bytes, calls);
    return *service;
  };
  for (const std::string& method : handler->Methods()) service_of(method).Add(method);
  if (pipes != nullptr) service_of(kGrpcPipePath + 1).Add(*pipes);
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.reserve(by_name.size());
  for (auto& [name, service] : by_name) services.push_back(std::move(service));
  return services;
}

void Configure(const GrpcServer::Options& options, grpc::ServerBuilder* builder) {
  grpc::EnableDefaultHealthCheckService(true);
  const bool streams = options.accept_pipe != nullptr;
  const int limit =
      GrpcLimit(streams ? GrpcFrameBytes(options.max_message_bytes) : options.max_message_bytes);
  builder->SetMaxReceiveMessageSize(limit);
  builder->SetMaxSendMessageSize(limit);
  builder->SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  // Limits the threads of one connection; its further calls wait at the client.
  const int share = std::max(kFewestThreads, (options.max_threads - options.max_streams) / 2);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, share);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMillis);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveMillis);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kGrpcFewestMillisBetweenPings);
}

}  // namespace

GrpcServer::GrpcServer(std::shared_ptr<const TenantTokens> tokens, Health* health)
    : callers_(std::make_unique<CallerCheck>(std::move(tokens), health)) {}

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                        CallHandler* handler) {
  QUIRE_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<GrpcServer> self(new GrpcServer(options.tokens, options.health));
  QUIRE_ASSIGN_OR_RETURN(self->listening_, GrpcListening::Claim(options.address));
  const auto call_threads = static_cast<uint32_t>(options.max_threads - options.max_streams);
  self->calls_ =
      std::make_unique<GrpcCalls>(GrpcCalls::Limits{.max_calls = call_threads,
                                                    .max_per_tenant = options.max_calls_per_tenant,
                                                    .max_refusals = call_threads / 4,
                                                    .stall_timeout = options.stall_timeout},
                                  options.health);
  if (options.accept_pipe != nullptr) {
    self->pipes_ = std::make_unique<GrpcPipeMethod>(
        GrpcPipeMethod::Options{.accept = options.accept_pipe,
                                .callers = self->callers_.get(),
                                .calls = self->calls_.get(),
                                .health = options.health,
                                .max_message_bytes = options.max_message_bytes,
                                .max_streams = options.max_streams});
  }
  self->services_ = ServicesOf(handler, self->callers_.get(), options.max_message_bytes,
                               self->pipes_.get(), self->calls_.get());

  grpc::ServerBuilder builder;
  Configure(options, &builder);
  self->listening_->AddTo(&builder);
  for (const auto& service : self->services_) builder.RegisterService(service.get());
  self->calls_->Configure(static_cast<uint32_t>(options.max_threads), &builder);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) return self->listening_->CannotListen();
  self->address_ = self->listening_->address();
  return self;
}

GrpcServer::~GrpcServer() {
  if (server_ != nullptr) Shutdown(Duration::zero());
}

int GrpcServer::port() const { return listening_->port(); }

void GrpcServer::Shutdown(Duration grace) {
  if (grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(false);
  }
  ShutDownGrpc(*server_, grace, [this] { return calls_->size() == 0; });
}

void GrpcServer::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("calls_unauthenticated", "Calls that did not prove their tenant, and were refused.",
                callers_->refused());
  calls_->VisitMetrics(visit);
}

}  // namespace quire
