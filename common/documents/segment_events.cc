// SPDX-License-Identifier: Apache-2.0
#include "quire/segment_events.h"

namespace quire {

std::string_view Name(SegmentEventKind kind) {
  switch (kind) {
    case SegmentEventKind::kStored:
      return "STORED";
    case SegmentEventKind::kEvicted:
      return "EVICTED";
    case SegmentEventKind::kDeleted:
      return "DELETED";
    case SegmentEventKind::kEnteredDram:
      return "ENTERED_DRAM";
    case SegmentEventKind::kLeftDram:
      return "LEFT_DRAM";
    case SegmentEventKind::kGap:
      return "GAP";
  }
  return "";
}

}  // namespace quire
