// SPDX-License-Identifier: Apache-2.0
//
// FrameRanges: the bytes of a landing that a frame's payload is for. They stay known after the
// payload was written and released. Thread-safety: none.
#ifndef QUIRE_TRANSPORT_UCX_FRAMES_FRAME_RANGES_H_
#define QUIRE_TRANSPORT_UCX_FRAMES_FRAME_RANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "transport/frame_pipe.h"

namespace quire {

class FrameRanges {
 public:
  FrameRanges() = default;  ///< For a frame without places.
  /// REQUIRES: a place for each slice of the payload, or none.
  explicit FrameRanges(const Frame& frame) : landing_(frame.landing) {
    ranges_.reserve(frame.places.size());
    for (size_t i = 0; i < frame.places.size(); ++i) {
      const uint64_t bytes = frame.payload.slices()[i].bytes.size();
      ranges_.push_back({frame.places[i], frame.places[i] + bytes});
    }
    std::ranges::sort(ranges_, {}, &Range::begin);
    for (size_t i = 1; i < ranges_.size(); ++i) {
      ranges_[i].end = std::max(ranges_[i].end, ranges_[i - 1].end);
    }
  }

  bool empty() const { return ranges_.empty(); }
  /// True if the two have a byte in common.
  bool Overlap(const FrameRanges& other) const {
    if (other.landing_ != landing_) return false;
    return std::ranges::any_of(other.ranges_, [&](const Range& range) {
      const auto after = std::ranges::lower_bound(ranges_, range.end, {}, &Range::begin);
      return after != ranges_.begin() && std::prev(after)->end > range.begin;
    });
  }

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  uint64_t landing_ = 0;
  /// Ascending by begin; each end is the largest of the ends up to it.
  std::vector<Range> ranges_ = {};
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_FRAMES_FRAME_RANGES_H_
