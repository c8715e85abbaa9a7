// SPDX-License-Identifier: Apache-2.0
//
// Client's reads of the events of segments.
#include <algorithm>
#include <chrono>

#include "client/caller.h"
#include "common/wire/convert.h"
#include "common/wire/convert_event.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/v1/events.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kFollow = {"quire.v1.Events/Follow", Repeat::kSafe};
constexpr CallSpec kListSegments = {"quire.v1.Events/List", Repeat::kSafe};

/// Positions must go up, so that a caller always gets on. A gap alone may go back: the log is
/// another one then.
Status CheckEventOrder(const FollowOptions& options, const SegmentEvents& read) {
  uint64_t last = options.after;
  for (const SegmentEvent& event : read.events) {
    const bool gap = event.kind == SegmentEventKind::kGap;
    if (!gap && event.position <= last) {
      return BadReply(kFollow.method, "its events are not in order");
    }
    last = event.position;
  }
  if (!read.events.empty() && read.position != last) {
    return BadReply(kFollow.method, "its position is not that of its last event");
  }
  return OkStatus();
}

}  // namespace

StatusOr<SegmentEvents> Client::FollowSegments(const FollowOptions& options) {
  v1::FollowRequest request;
  request.set_after(options.after);
  request.set_from_now(options.from_now);
  request.set_max_events(options.max_events);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(options.wait).count();
  request.set_wait_millis(
      static_cast<uint32_t>(std::clamp<int64_t>(millis, 0, wire::kMaxWatchMillis)));
  v1::FollowReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kFollow, request, {}, caller_->NewDeadline(), &reply, nullptr));
  SegmentEvents read{.events = {}, .position = reply.position()};
  for (const v1::SegmentEvent& proto : reply.events()) {
    const auto event = wire::EventFromProto(proto);
    if (!event.ok()) return BadReply(kFollow.method, Message(event.status()));
    read.events.push_back(*event);
  }
  QUIRE_RETURN_IF_ERROR(CheckEventOrder(options, read));
  return read;
}

StatusOr<std::vector<ListedSegment>> Client::ListSegments(const SegmentKey& after,
                                                          uint32_t max_segments) {
  v1::ListSegmentsRequest request;
  if (after != kRootKey) request.set_after(wire::KeyToBytes(after));
  request.set_max_segments(max_segments);
  v1::ListSegmentsReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kListSegments, request, {}, caller_->NewDeadline(), &reply, nullptr));
  std::vector<ListedSegment> segments;
  SegmentKey last = after;
  for (const v1::ListedSegment& proto : reply.segments()) {
    const auto segment = wire::ListedFromProto(proto);
    if (!segment.ok()) return BadReply(kListSegments.method, Message(segment.status()));
    if (!(last < segment->segment)) {
      return BadReply(kListSegments.method, "its segments are not in order");
    }
    last = segment->segment;
    segments.push_back(*segment);
  }
  return segments;
}

}  // namespace quire
