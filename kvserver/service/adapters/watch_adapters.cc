// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "common/wire/convert.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/registry_parts.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kDefaultWatchedEvents = 100;
/// Part of the call's time that is left for the reply.
constexpr Duration kReplyTime = std::chrono::milliseconds(50);

Status CheckWatch(const v1::WatchRequest& request) {
  if (request.max_events() > wire::kMaxWatchedEvents) {
    return InvalidArgument("max_events is ", request.max_events(), ": must be 1..",
                           wire::kMaxWatchedEvents);
  }
  if (request.wait_millis() > wire::kMaxWatchMillis) {
    return InvalidArgument("wait_millis is ", request.wait_millis(), ": must be at most ",
                           wire::kMaxWatchMillis);
  }
  if (request.from_now() && request.after() != 0) {
    return InvalidArgument("after is ", request.after(), ", and from_now asks for another ",
                           "position; give one of them");
  }
  return request.collection().empty() ? OkStatus() : wire::CheckCollection(request.collection());
}

Status Watch(DocumentRegistry& registry, const Call& call, const v1::WatchRequest& request,
             v1::WatchReply* reply) {
  QUIRE_RETURN_IF_ERROR(CheckWatch(request));
  const TimePoint end = SystemClock().Now() + std::chrono::milliseconds(request.wait_millis());
  QUIRE_ASSIGN_OR_RETURN(
      const DocumentEvents page,
      registry.Watch(
          {.tenant = call.tenant,
           .after = request.after(),
           .from_now = request.from_now(),
           .collection = request.collection(),
           .max_events = request.max_events() == 0 ? kDefaultWatchedEvents : request.max_events()},
          std::min(end, call.context.deadline - kReplyTime),
          [&] { return call.context.IsCancelled(); }));
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
