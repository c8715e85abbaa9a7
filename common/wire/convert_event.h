// SPDX-License-Identifier: Apache-2.0
//
// Conversions of events of segments. Checks and errors as in convert.h.
#ifndef QUIRE_COMMON_WIRE_CONVERT_EVENT_H_
#define QUIRE_COMMON_WIRE_CONVERT_EVENT_H_

#include "quire/segment_events.h"
#include "quire/status.h"
#include "quire/v1/events.pb.h"

namespace quire::wire {

[[nodiscard]] StatusOr<SegmentEvent> EventFromProto(const v1::SegmentEvent& proto);
void EventToProto(const SegmentEvent& event, v1::SegmentEvent* proto);

[[nodiscard]] StatusOr<ListedSegment> ListedFromProto(const v1::ListedSegment& proto);
void ListedToProto(const ListedSegment& segment, v1::ListedSegment* proto);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_CONVERT_EVENT_H_
