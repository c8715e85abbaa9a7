// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert_document.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {

void AddPageUseMethods(ContextResolver* resolver, Dispatcher* dispatcher) {
  dispatcher->Add<v1::PageUsesRequest, v1::PageUsesReply>(
      "quire.v1.Registry/PageUses",
      [resolver](const Call& call, const v1::PageUsesRequest& request,
                 v1::PageUsesReply* reply) -> Status {
        QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.document()));
        QUIRE_ASSIGN_OR_RETURN(const auto used, resolver->UsesOf(call.tenant, name));
        reply->set_page_tokens(used.page_tokens);
        reply->mutable_uses()->Add(used.uses.begin(), used.uses.end());
        return OkStatus();
      });
}

}  // namespace quire::kvserver
