// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/worker_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "common/metrics/build_info.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_shutdown.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMostCalls = 1024;
/// Threads beyond the calls that run: to refuse further ones, and for health checks.
constexpr int kSpareThreads = 8;

}  // namespace

StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(const Options& options,
                                                            const Engine* engine) {
  if (options.max_calls == 0 || options.max_calls > kMostCalls) {
    return InvalidArgument("max_calls is ", options.max_calls, "; it must be 1 to ", kMostCalls);
  }
  QUIRE_ASSIGN_OR_RETURN(auto listening, GrpcListening::Claim(options.address));
  BatchLimits limits = options.batch;
  limits.max_waiting = options.max_calls;
  QUIRE_ASSIGN_OR_RETURN(auto batch, Batch::Create(engine, limits));
  QUIRE_ASSIGN_OR_RETURN(auto reuse, ReuseQueue::Create(engine, {.max_running = options.max_reuse,
                                                                 .max_waiting = options.max_calls,
                                                                 .variants = options.variants,
                                                                 .window = options.reuse_window}));
  auto self = std::unique_ptr<WorkerServer>(new WorkerServer(
      options,
      {.retrieval = engine->options().retrieval, .page_tokens = engine->spec().page_tokens}, engine,
      std::move(batch), std::move(reuse), std::move(listening)));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  self->calls_.Configure(options.max_calls + kSpareThreads, &builder);
  // A connection's calls beyond those that run, and some that are refused, wait at the client.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.max_calls) + kSpareThreads / 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kGrpcFewestMillisBetweenPings);
  self->listening_->AddTo(&builder);
  builder.RegisterService(&self->service_);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) return self->listening_->CannotListen();
  self->running_ = std::thread([batch = self->batch_.get()] { batch->Run(); });
  self->address_ = self->listening_->address();
  return self;
}

WorkerServer::WorkerServer(const Options& options, GenerateDefaults defaults, const Engine* engine,
                           std::unique_ptr<Batch> batch, std::unique_ptr<ReuseQueue> reuse,
                           std::unique_ptr<GrpcListening> listening)
    : health_(options.health),
      batch_(std::move(batch)),
      reuse_(std::move(reuse)),
      listening_(std::move(listening)),
      callers_(options.tokens, options.health),
      calls_({.max_per_tenant = options.max_calls,
              .max_refusals = kSpareThreads / 2,
              .stall_timeout = options.stall_timeout},
             options.health),
      service_(batch_.get(), reuse_.get(), engine, std::move(defaults),
               TextOfModel{options.tokenizer, options.chat}, options.tenant, &callers_, &calls_,
               options.health, options.tracer) {}

void WorkerServer::VisitMetrics(MetricsVisitor& visit) const {
  VisitBuildInfo(visit);
  batch_->VisitMetrics(visit);
  reuse_->VisitMetrics(visit);
  service_.VisitMetrics(visit);
  if (health_ != nullptr) health_->VisitMetrics(visit);
}

WorkerServer::~WorkerServer() {
  if (server_ == nullptr) return;
  Shutdown(Duration::zero());
  batch_->Stop();
  running_.join();
}

void WorkerServer::Shutdown(Duration grace) {
  if (grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(false);
  }
  ShutDownGrpc(*server_, grace, [this] { return calls_.size() == 0; });
}

}  // namespace quire::worker
