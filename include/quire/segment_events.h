// SPDX-License-Identifier: Apache-2.0
//
// Events of segments: what a server has, and where, as it changes. A router follows them and
// resumes from a position. Value types.
#ifndef QUIRE_SEGMENT_EVENTS_H_
#define QUIRE_SEGMENT_EVENTS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "quire/clock.h"
#include "quire/key.h"

namespace quire {

enum class SegmentEventKind : uint8_t {
  kStored = 1,   ///< Look-ups find it from now on.
  kEvicted,      ///< It has left the server: room was needed, or nobody used it.
  kDeleted,      ///< It has left the server: somebody deleted it, or its last document.
  kEnteredDram,  ///< A part of it is in DRAM now, and none was.
  kLeftDram,     ///< No part of it is in DRAM any more.
  kGap,          ///< Events up to this position are lost: list the segments, then follow.
};
/// "STORED", ... as on the wire.
std::string_view Name(SegmentEventKind kind);

struct SegmentEvent {
  uint64_t position = 0;  ///< Grows by one from event to event of a tenant, but for gaps.
  int64_t time_unix_micros = 0;
  SegmentEventKind kind = SegmentEventKind::kStored;
  SegmentKey segment = kRootKey;  ///< kRootKey for a gap.
  SegmentKey parent = kRootKey;   ///< Segment that a stored one continues.
  uint64_t bytes = 0;             ///< Payload of a stored one on SSD.

  friend bool operator==(const SegmentEvent&, const SegmentEvent&) = default;
};

struct FollowOptions {
  uint64_t after = 0;                ///< Position of the last event that is known; 0: none.
  bool from_now = false;             ///< Only events to come; `after` is 0 then.
  uint32_t max_events = 1000;        ///< 1..1000
  Duration wait = Duration::zero();  ///< For a first event; at most 30 s.
};
struct SegmentEvents {
  std::vector<SegmentEvent> events;  ///< None when the wait is over.
  uint64_t position = 0;             ///< `after` of the next call.
};

/// A segment that look-ups find.
struct ListedSegment {
  SegmentKey segment = {};
  SegmentKey parent = {};
  uint64_t bytes = 0;  ///< Payload on SSD.
  bool in_dram = false;

  friend bool operator==(const ListedSegment&, const ListedSegment&) = default;
};

}  // namespace quire

#endif  // QUIRE_SEGMENT_EVENTS_H_
