// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/dispatcher.h"

#include <optional>

#include "common/wire/convert.h"
#include "kvserver/service/lane.h"

namespace quire::kvserver {
namespace {

/// What every call costs besides its bytes, in bytes.
constexpr uint64_t kCostOfACall = 16 << 10;

uint64_t BytesOf(const CallMessage& message) {
  return message.control.size() + message.payload.size_bytes();
}

}  // namespace

void Dispatcher::AddMethod(const std::string& name, Adapter adapter) {
  const Lane lane = LaneOf(name);
  auto method = std::make_unique<Method>();
  method->adapter = std::move(adapter);
  method->door = lane == Lane::kRead    ? parts_.reads
                 : lane == Lane::kWrite ? parts_.writes
                                        : nullptr;
  methods_[name] = std::move(method);
}

std::vector<std::string> Dispatcher::Methods() const {
  std::vector<std::string> names;
  for (const auto& [name, method] : methods_) names.push_back(name);
  return names;
}

Status Dispatcher::Handle(const CallContext& context, std::string_view method,
                          const CallMessage& request, CallMessage* reply) {
  calls_.Add();
  const auto it = methods_.find(method);
  const Status status = it == methods_.end()
                            ? Unimplemented("this server has no method ", method)
                            : HandleKnown(*it->second, context, method, request, reply);
  if (!status.ok()) calls_failed_.Add();
  return status;
}

Status Dispatcher::HandleKnown(Method& method, const CallContext& context, std::string_view name,
                               const CallMessage& request, CallMessage* reply) const {
  const LatencyTimer timer(method.latency, *parts_.clock);
  method.request_bytes.Add(BytesOf(request));
  Status status = Check(context, name);
  if (status.ok()) status = Run(method, context, request, reply);
  if (status.ok()) {
    method.reply_bytes.Add(BytesOf(*reply));
  } else {
    method.errors[static_cast<size_t>(status.code())].Add();
  }
  return status;
}

Status Dispatcher::Check(const CallContext& context, std::string_view method) const {
  if (context.deadline <= SystemClock().Now()) {
    return DeadlineExceeded(method, ": the deadline had passed before the call began");
  }
  QUIRE_RETURN_IF_ERROR(wire::CheckTenantName(context.tenant));
  return parts_.store->CheckTenant(context.tenant);
}

Status Dispatcher::Run(const Method& method, const CallContext& context, const CallMessage& request,
                       CallMessage* reply) const {
  std::optional<Admission::Pass> pass;
  if (method.door != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(
        auto entered,
        method.door->Enter(context.tenant, kCostOfACall + BytesOf(request), context.deadline));
    pass.emplace(std::move(entered));
  }
  CallMessage answer;
  const Call call{context.tenant, request.payload, &answer.payload};
  QUIRE_RETURN_IF_ERROR(method.adapter(call, request.control, &answer.control));
  if (pass) pass->AddCost(BytesOf(answer));
  *reply = std::move(answer);
  return OkStatus();
}

void Dispatcher::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("calls", "Calls that came in.", calls_.Get());
  visit.Counter("calls_failed", "Calls that ended with an error.", calls_failed_.Get());
  for (const auto& [name, method] : methods_) {
    visit.Histogram("call_seconds", "Time from the arrival of a call to its reply.",
                    method->latency, {{"method", name}});
    visit.Counter("call_request_bytes", "Bytes of requests.", method->request_bytes.Get(),
                  {{"method", name}});
    visit.Counter("call_reply_bytes", "Bytes of replies.", method->reply_bytes.Get(),
                  {{"method", name}});
    for (size_t code = 1; code < kNumCodes; ++code) {
      const uint64_t errors = method->errors[code].Get();
      if (errors == 0) continue;
      visit.Counter(
          "call_errors", "Calls that ended with an error, by its code.", errors,
          {{"method", name}, {"code", absl::StatusCodeToString(static_cast<StatusCode>(code))}});
    }
  }
}

}  // namespace quire::kvserver
