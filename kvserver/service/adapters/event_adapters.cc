// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert.h"
#include "common/wire/convert_event.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/adapters/following.h"
#include "kvserver/store/events/segment_event_log.h"
#include "quire/v1/events.pb.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kDefaultListed = 1000;

Status Follow(PageStore& store, const Call& call, const v1::FollowRequest& request,
              v1::FollowReply* reply) {
  QUIRE_RETURN_IF_ERROR(CheckFollowing(request));
  QUIRE_RETURN_IF_ERROR(store.CheckTenant(call.tenant));
  if (store.events() == nullptr) return Unimplemented("this store has no events");
  QUIRE_ASSIGN_OR_RETURN(
      const SegmentEvents read,
      store.events()->Follow({.tenant = call.tenant,
                              .after = request.after(),
                              .from_now = request.from_now(),
                              .max_events = EventsOf(request)},
                             EndOfWait(call, request), [&] { return call.context.IsCancelled(); }));
  for (const SegmentEvent& event : read.events) wire::EventToProto(event, reply->add_events());
  reply->set_position(read.position);
  return OkStatus();
}

Status List(PageStore& store, const Call& call, const v1::ListSegmentsRequest& request,
            v1::ListSegmentsReply* reply) {
  if (request.max_segments() > wire::kMaxListedSegments) {
    return InvalidArgument("max_segments is ", request.max_segments(), ": must be 1..",
                           wire::kMaxListedSegments);
  }
  QUIRE_RETURN_IF_ERROR(store.CheckTenant(call.tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey after,
                         wire::KeyOrRootFromBytes(request.after(), "after"));
  const uint32_t most = request.max_segments() == 0 ? kDefaultListed : request.max_segments();
  for (const ListedSegment& segment : store.ListSegments(call.tenant, after, most)) {
    wire::ListedToProto(segment, reply->add_segments());
  }
  return OkStatus();
}

}  // namespace

void AddEventMethods(PageStore* store, Dispatcher* dispatcher) {
  dispatcher->Add<v1::FollowRequest, v1::FollowReply>(
      "quire.v1.Events/Follow",
      [store](const Call& call, const v1::FollowRequest& request, v1::FollowReply* reply) {
        return Follow(*store, call, request, reply);
      });
  dispatcher->Add<v1::ListSegmentsRequest, v1::ListSegmentsReply>(
      "quire.v1.Events/List",
      [store](const Call& call, const v1::ListSegmentsRequest& request,
              v1::ListSegmentsReply* reply) { return List(*store, call, request, reply); });
}

}  // namespace quire::kvserver
