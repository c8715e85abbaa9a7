// SPDX-License-Identifier: Apache-2.0
//
// FrameRanges: which bytes of a landing a frame's payload is for. Thread-safety: none.
#ifndef QUIRE_COMMON_TRANSPORT_FRAME_RANGES_H_
#define QUIRE_COMMON_TRANSPORT_FRAME_RANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "common/transport/frame_pipe.h"

namespace quire {

class FrameRanges {
 public:
  /// REQUIRES, as for Overlap: a place for each slice of the payload, or none.
  explicit FrameRanges(const Frame& frame) : landing_(frame.landing) {
    ranges_.reserve(frame.places.size());
    for (size_t i = 0; i < frame.places.size(); ++i) ranges_.push_back(RangeOf(frame, i));
    std::ranges::sort(ranges_, {}, &Range::begin);
    for (size_t i = 1; i < ranges_.size(); ++i) {
      ranges_[i].end = std::max(ranges_[i].end, ranges_[i - 1].end);
    }
  }

  /// Whether `frame` is for any of these bytes.
  bool Overlap(const Frame& frame) const {
    if (frame.landing != landing_) return false;
    for (size_t i = 0; i < frame.places.size(); ++i) {
      const Range range = RangeOf(frame, i);
      const auto after = std::ranges::lower_bound(ranges_, range.end, {}, &Range::begin);
      if (after != ranges_.begin() && std::prev(after)->end > range.begin) return true;
    }
    return false;
  }

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  static Range RangeOf(const Frame& frame, size_t i) {
    return {frame.places[i], frame.places[i] + frame.payload.slices()[i].bytes.size()};
  }

  uint64_t landing_;
  std::vector<Range> ranges_;  ///< Ascending; each ends where the last of those up to it does.
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_FRAME_RANGES_H_
