// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert.h"
#include "common/wire/convert_document.h"
#include "kvserver/service/adapters/following.h"
#include "kvserver/service/adapters/registry_parts.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {
namespace {

Status Watch(DocumentRegistry& registry, const Call& call, const v1::WatchRequest& request,
             v1::WatchReply* reply) {
  QUIRE_RETURN_IF_ERROR(CheckFollowing(request));
  if (!request.collection().empty()) {
    QUIRE_RETURN_IF_ERROR(wire::CheckCollection(request.collection()));
  }
  QUIRE_ASSIGN_OR_RETURN(
      const DocumentEvents page,
      registry.Watch({.tenant = call.tenant,
                      .after = request.after(),
                      .from_now = request.from_now(),
                      .collection = request.collection(),
                      .max_events = EventsOf(request)},
                     EndOfWait(call, request), [&] { return call.context.IsCancelled(); }));
  for (const DocumentEvent& event : page.events) wire::EventToProto(event, reply->add_events());
  reply->set_position(page.position);
  reply->set_oldest(page.oldest);
  return OkStatus();
}

}  // namespace

void AddWatchMethods(DocumentRegistry* registry, Dispatcher* dispatcher) {
  dispatcher->Add<v1::WatchRequest, v1::WatchReply>(
      "quire.v1.Registry/Watch",
      [registry](const Call& call, const v1::WatchRequest& request, v1::WatchReply* reply) {
        return Watch(*registry, call, request, reply);
      });
}

}  // namespace quire::kvserver
