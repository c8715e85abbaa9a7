// SPDX-License-Identifier: Apache-2.0
#include "common/transport/grpc_calls.h"

#include <grpcpp/server_context.h>

#include <algorithm>

#include "common/base/retry_hint.h"

namespace quire {
namespace {

constexpr Duration kLookAfter = std::chrono::milliseconds(500);
constexpr Duration kRetryAfter = std::chrono::milliseconds(50);

}  // namespace

GrpcCalls::GrpcCalls(const Limits& limits)
    : limits_(limits),
      sweeper_(
          std::clamp<Duration>(limits.stall_timeout / 4, std::chrono::milliseconds(1), kLookAfter),
          [this] { CancelStalled(); }) {}

void GrpcCalls::Entered(grpc::ServerContext* context) {
  MutexLock lock(mutex_);
  calls_[context] = {};
}

Status GrpcCalls::Admit(grpc::ServerContext* context, const std::string& tenant) {
  MutexLock lock(mutex_);
  const auto it = of_tenants_.find(tenant);
  const uint32_t running = it == of_tenants_.end() ? 0 : it->second;
  if (running >= limits_.max_per_tenant) {
    refused_.Add();
    return WithRetryAfter(
        ResourceExhausted("tenant ", tenant, " has ", running,
                          " calls at the server, which is the limit; take their answers, or retry "
                          "later"),
        kRetryAfter);
  }
  ++of_tenants_[tenant];
  calls_[context].tenant = tenant;
  return OkStatus();
}

void GrpcCalls::Answering(grpc::ServerContext* context, uint64_t bytes) {
  const auto to_send = std::chrono::seconds(bytes / kSlowestBytesPerSecond);
  const TimePoint end = SystemClock().Now() + limits_.stall_timeout + to_send;
  MutexLock lock(mutex_);
  calls_[context].answer_end = end;
}

void GrpcCalls::Left(grpc::ServerContext* context) {
  MutexLock lock(mutex_);
  const auto call = calls_.find(context);
  if (!call->second.tenant.empty()) {
    const auto of_tenant = of_tenants_.find(call->second.tenant);
    if (--of_tenant->second == 0) of_tenants_.erase(of_tenant);
  }
  calls_.erase(call);
}

size_t GrpcCalls::size() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

void GrpcCalls::CancelStalled() {
  const TimePoint now = SystemClock().Now();
  MutexLock lock(mutex_);
  for (auto& [context, call] : calls_) {
    if (now < call.answer_end) continue;
    context->TryCancel();
    stalled_.Add();
    call.answer_end = TimePoint::max();
  }
}

}  // namespace quire
