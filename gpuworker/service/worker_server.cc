// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/worker_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "common/metrics/build_info.h"
#include "common/transport/grpc_convert.h"

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
  if (options.address.empty()) {
    return InvalidArgument("the address to listen on is empty: give host:port");
  }
  BatchLimits limits = options.batch;
  limits.max_waiting = options.max_calls;
  QUIRE_ASSIGN_OR_RETURN(auto batch, Batch::Create(engine, limits));
  auto self = std::unique_ptr<WorkerServer>(new WorkerServer(
      options,
      {.retrieval = engine->options().retrieval, .page_tokens = engine->spec().page_tokens},
      std::move(batch)));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("quire-worker");
  quota.SetMaxThreads(static_cast<int>(options.max_calls) + kSpareThreads);
  builder.SetResourceQuota(quota);
  self->callers_.Configure(&builder);
  // Two servers on one port would share its connections: the second one is refused instead.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &self->port_);
  builder.RegisterService(&self->service_);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) {
    return Unavailable("cannot listen on ", options.address,
                       ": the port is taken or the address is not this machine's; choose another "
                       "one, or port 0 for any that is free");
  }
  self->running_ = std::thread([batch = self->batch_.get()] { batch->Run(); });
  self->address_ =
      options.address.substr(0, options.address.rfind(':')) + ":" + std::to_string(self->port_);
  return self;
}

WorkerServer::WorkerServer(const Options& options, GenerateDefaults defaults,
                           std::unique_ptr<Batch> batch)
    : batch_(std::move(batch)),
      callers_(options.tokens),
      service_(batch_.get(), std::move(defaults), options.tokenizer, options.max_calls,
               options.tenant, &callers_) {}

void WorkerServer::VisitMetrics(MetricsVisitor& visit) const {
  VisitBuildInfo(visit);
  batch_->VisitMetrics(visit);
  service_.VisitMetrics(visit);
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
  server_->Shutdown(DeadlineAfter(grace));
  server_->Wait();
}

}  // namespace quire::worker
