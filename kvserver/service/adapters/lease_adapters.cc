// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <string_view>
#include <vector>

#include "common/wire/limits.h"
#include "google/protobuf/repeated_field.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/lease.pb.h"

namespace quire::kvserver {
namespace {

using Ids = google::protobuf::RepeatedField<uint64_t>;

Status CheckCount(const Ids& ids, std::string_view field) {
  if (static_cast<uint32_t>(ids.size()) <= wire::kMaxRenewedIds) return OkStatus();
  return InvalidArgument(field, " has ", ids.size(), " ids: at most ", wire::kMaxRenewedIds,
                         " in a call");
}

std::span<const uint64_t> SpanOf(const Ids& ids) {
  return {ids.data(), static_cast<size_t>(ids.size())};
}

}  // namespace

void AddLeaseMethods(ContextTable* contexts, SessionManager* sessions, DocumentRegistry* registry,
                     Dispatcher* dispatcher) {
  dispatcher->Add<v1::RenewRequest, v1::RenewReply>(
      "quire.v1.Leases/Renew",
      [contexts, sessions, registry](const Call& call, const v1::RenewRequest& request,
                                     v1::RenewReply* reply) {
        QUIRE_RETURN_IF_ERROR(CheckCount(request.context_ids(), "context_ids"));
        QUIRE_RETURN_IF_ERROR(CheckCount(request.session_ids(), "session_ids"));
        QUIRE_RETURN_IF_ERROR(CheckCount(request.ingest_ids(), "ingest_ids"));
        const auto contexts_gone = contexts->Renew(call.tenant, SpanOf(request.context_ids()));
        const auto sessions_gone = sessions->Renew(call.tenant, SpanOf(request.session_ids()));
        const auto ingests_gone = registry->RenewIngests(call.tenant, SpanOf(request.ingest_ids()));
        reply->mutable_gone_context_ids()->Add(contexts_gone.begin(), contexts_gone.end());
        reply->mutable_gone_session_ids()->Add(sessions_gone.begin(), sessions_gone.end());
        reply->mutable_gone_ingest_ids()->Add(ingests_gone.begin(), ingests_gone.end());
        return OkStatus();
      });
}

}  // namespace quire::kvserver
