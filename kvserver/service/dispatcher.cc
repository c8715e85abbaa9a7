// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/dispatcher.h"

#include "common/wire/convert.h"

namespace quire::kvserver {

std::vector<std::string> Dispatcher::Methods() const {
  std::vector<std::string> names;
  for (const auto& [name, method] : methods_) names.push_back(name);
  return names;
}

Status Dispatcher::Handle(const CallContext& context, std::string_view method,
                          const CallMessage& request, CallMessage* reply) {
  calls_.Add();
  const Status status = Run(context, method, request, reply);
  if (!status.ok()) calls_failed_.Add();
  return status;
}

Status Dispatcher::Run(const CallContext& context, std::string_view method,
                       const CallMessage& request, CallMessage* reply) const {
  const auto it = methods_.find(method);
  if (it == methods_.end()) return Unimplemented("this server has no method ", method);
  if (context.deadline <= SystemClock().Now()) {
    return DeadlineExceeded(method, ": the deadline had passed before the call began");
  }
  QUIRE_RETURN_IF_ERROR(wire::CheckTenantName(context.tenant));
  QUIRE_RETURN_IF_ERROR(store_.CheckTenant(context.tenant));
  CallMessage answer;
  const Call call{context.tenant, request.payload, &answer.payload};
  QUIRE_RETURN_IF_ERROR(it->second(call, request.control, &answer.control));
  *reply = std::move(answer);
  return OkStatus();
}

void Dispatcher::VisitCounters(const CounterVisitor& visit) const {
  visit("calls", calls_.Get());
  visit("calls_failed", calls_failed_.Get());
}

}  // namespace quire::kvserver
