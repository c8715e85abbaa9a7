// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert_event.h"

#include "common/wire/convert.h"

namespace quire::wire {

StatusOr<SegmentEvent> EventFromProto(const v1::SegmentEvent& proto) {
  SegmentEvent event{.position = proto.position(),
                     .time_unix_micros = proto.time_unix_micros(),
                     .kind = static_cast<SegmentEventKind>(proto.kind()),
                     .bytes = proto.bytes()};
  if (event.position == 0) return InvalidArgument("an event has no position");
  if (Name(event.kind).empty()) {
    return InvalidArgument("kind ", static_cast<int>(proto.kind()), " of an event is unknown");
  }
  if (event.kind == SegmentEventKind::kGap) return event;
  QUIRE_ASSIGN_OR_RETURN(event.segment, KeyFromBytes(proto.segment(), "segment"));
  QUIRE_ASSIGN_OR_RETURN(event.parent, KeyOrRootFromBytes(proto.parent(), "parent"));
  return event;
}

void EventToProto(const SegmentEvent& event, v1::SegmentEvent* proto) {
  proto->set_position(event.position);
  proto->set_time_unix_micros(event.time_unix_micros);
  proto->set_kind(static_cast<v1::SegmentEventKind>(event.kind));
  if (event.kind != SegmentEventKind::kGap) proto->set_segment(KeyToBytes(event.segment));
  if (event.parent != kRootKey) proto->set_parent(KeyToBytes(event.parent));
  proto->set_bytes(event.bytes);
}

StatusOr<ListedSegment> ListedFromProto(const v1::ListedSegment& proto) {
  ListedSegment segment{.bytes = proto.bytes(), .in_dram = proto.in_dram()};
  QUIRE_ASSIGN_OR_RETURN(segment.segment, KeyFromBytes(proto.segment(), "segment"));
  QUIRE_ASSIGN_OR_RETURN(segment.parent, KeyOrRootFromBytes(proto.parent(), "parent"));
  return segment;
}

void ListedToProto(const ListedSegment& segment, v1::ListedSegment* proto) {
  proto->set_segment(KeyToBytes(segment.segment));
  if (segment.parent != kRootKey) proto->set_parent(KeyToBytes(segment.parent));
  proto->set_bytes(segment.bytes);
  proto->set_in_dram(segment.in_dram);
}

}  // namespace quire::wire
