// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_calls.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/retry_hint.h"

namespace quire {
namespace {

constexpr Duration kLookAfter = std::chrono::milliseconds(500);
constexpr Duration kRetryAdmissionAfter = std::chrono::milliseconds(50);
constexpr uint32_t kBurstThreads = 1024;

}  // namespace

class GrpcCalls::Handler final : public grpc::internal::MethodHandler {
 public:
  Handler(std::unique_ptr<grpc::internal::MethodHandler> inner, GrpcCalls* calls)
      : inner_(std::move(inner)), calls_(calls) {}
  void RunHandler(const HandlerParameter& parameter) override {
    auto* const context = static_cast<grpc::ServerContext*>(parameter.server_context);
    calls_->OnThreadEntered(context);
    inner_->RunHandler(parameter);
    calls_->OnThreadLeft(context);
  }
  void* Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                    void** handler_data) override {
    return inner_->Deserialize(call, request, status, handler_data);
  }

 private:
  const std::unique_ptr<grpc::internal::MethodHandler> inner_;
  GrpcCalls* const calls_;
};

std::unique_ptr<grpc::internal::MethodHandler> GrpcCalls::Count(
    std::unique_ptr<grpc::internal::MethodHandler> inner) {
  return std::make_unique<Handler>(std::move(inner), this);
}

GrpcCalls::GrpcCalls(const Limits& limits, Health* health)
    : limits_(limits),
      health_(health),
      unknown_(std::make_unique<grpc::CallbackGenericService>()),
      sweeper_(
          std::clamp<Duration>(limits.stall_timeout / 4, std::chrono::milliseconds(1), kLookAfter),
          [this] { CancelStalled(); }) {}

GrpcCalls::~GrpcCalls() = default;

void GrpcCalls::Configure(uint32_t threads, grpc::ServerBuilder* builder) {
  grpc::ResourceQuota quota("quire");
  quota.SetMaxThreads(static_cast<int>(threads + kBurstThreads));
  builder->SetResourceQuota(quota);
  builder->RegisterCallbackGenericService(unknown_.get());
}

void GrpcCalls::OnThreadEntered(grpc::ServerContext* context) {
  MutexLock lock(mutex_);
  calls_[context] = {};
}

Status GrpcCalls::Admit(grpc::ServerContext* context, const std::string& tenant) {
  Status taken = Take(context, tenant);
  if (taken.ok()) return taken;
  refused_.Add();
  NoteTo(health_, Trouble::kCallRefused, Message(taken));
  return taken;
}

Status GrpcCalls::Take(grpc::ServerContext* context, const std::string& tenant) {
  MutexLock lock(mutex_);
  const auto it = of_tenants_.find(tenant);
  const uint32_t running = it == of_tenants_.end() ? 0 : it->second;
  if (running >= limits_.max_per_tenant) {
    return WithRetryAfter(
        ResourceExhausted("tenant ", tenant, " has ", running,
                          " calls at the server, which is the limit; take their answers, or retry "
                          "later"),
        kRetryAdmissionAfter);
  }
  if (admitted_ >= limits_.max_calls) {
    return WithRetryAfter(
        ResourceExhausted("the server has ", admitted_, " calls, which is its limit; retry later"),
        kRetryAdmissionAfter);
  }
  ++admitted_;
  ++of_tenants_[tenant];
  calls_[context].tenant = tenant;
  return OkStatus();
}

void GrpcCalls::Answering(grpc::ServerContext* context, uint64_t bytes) {
  const auto to_send = std::chrono::seconds(bytes / kSlowestBytesPerSecond);
  const TimePoint end = SystemClock().Now() + limits_.stall_timeout + to_send;
  {
    MutexLock lock(mutex_);
    Call& call = calls_[context];
    call.answer_end = end;
    if (!call.tenant.empty() || call.refused) return;
    call.refused = true;
    if (++refusals_ <= limits_.max_refusals) return;
    context->TryCancel();  // Ends the wait of the call's thread.
  }
  cut_off_.Add();
  NoteTo(health_, Trouble::kCallRefused,
         "a call from " + context->peer() +
             " was ended without a word: too many others are being told of their refusal");
}

void GrpcCalls::Taken(grpc::ServerContext* context) {
  MutexLock lock(mutex_);
  calls_[context].answer_end = TimePoint::max();
}

void GrpcCalls::OnThreadLeft(grpc::ServerContext* context) {
  MutexLock lock(mutex_);
  const auto call = calls_.find(context);
  if (call->second.refused) --refusals_;
  if (!call->second.tenant.empty()) {
    --admitted_;
    const auto of_tenant = of_tenants_.find(call->second.tenant);
    if (--of_tenant->second == 0) of_tenants_.erase(of_tenant);
  }
  calls_.erase(call);
}

size_t GrpcCalls::size() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

void GrpcCalls::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("calls_over_tenant_limit",
                "Calls refused because their tenant had too many at the gRPC port.",
                refused_.Get());
  visit.Counter("calls_cut_off",
                "Refused calls that were ended without a word, because too many others were being "
                "told of theirs.",
                cut_off_.Get());
  visit.Counter("calls_stalled", "Calls ended because the client did not take the answer in time.",
                stalled_.Get());
}

void GrpcCalls::CancelStalled() {
  const TimePoint now = SystemClock().Now();
  std::vector<std::string> peers;
  {
    MutexLock lock(mutex_);
    for (auto& [context, call] : calls_) {
      if (now < call.answer_end) continue;
      context->TryCancel();
      peers.push_back(context->peer());
      call.answer_end = TimePoint::max();
    }
  }
  for (const std::string& peer : peers) {
    stalled_.Add();
    NoteTo(health_, Trouble::kCallRefused, "a call was ended: " + peer + " takes no answer");
  }
}

}  // namespace quire
