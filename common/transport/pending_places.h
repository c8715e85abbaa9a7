// SPDX-License-Identifier: Apache-2.0
//
// PendingPlaces: where frames that wait to be written will be written. A frame for the same bytes
// must not be written before them. Thread-safety: none.
#ifndef QUIRE_COMMON_TRANSPORT_PENDING_PLACES_H_
#define QUIRE_COMMON_TRANSPORT_PENDING_PLACES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <vector>

#include "common/transport/frame_pipe.h"

namespace quire {

class PendingPlaces {
 public:
  size_t size() const { return frames_.size(); }
  /// `frame`, with a place for each slice that overlap nowhere, waits behind the others.
  void Add(const Frame& frame) {
    frames_.push_back({frame.landing, RangesOf(frame)});
    std::ranges::sort(frames_.back().ranges, {}, &Range::begin);
  }
  /// The frame that has waited longest is written.
  void PopFront() { frames_.pop_front(); }
  /// Whether a frame that waits has any of the bytes that `frame` is for.
  bool Overlap(const Frame& frame) const {
    const std::vector<Range> ranges = RangesOf(frame);
    return std::ranges::any_of(frames_, [&](const Waiting& waiting) {
      return waiting.landing == frame.landing &&
             std::ranges::any_of(ranges, [&](const Range& range) { return Hits(waiting, range); });
    });
  }

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  struct Waiting {
    uint64_t landing = 0;
    std::vector<Range> ranges;  ///< Ascending.
  };

  static std::vector<Range> RangesOf(const Frame& frame) {
    std::vector<Range> ranges;
    ranges.reserve(frame.places.size());
    for (size_t i = 0; i < frame.places.size(); ++i) {
      const uint64_t begin = frame.places[i];
      ranges.push_back({begin, begin + frame.payload.slices()[i].bytes.size()});
    }
    return ranges;
  }
  static bool Hits(const Waiting& waiting, const Range& range) {
    const auto after = std::ranges::lower_bound(waiting.ranges, range.end, {}, &Range::begin);
    return after != waiting.ranges.begin() && std::prev(after)->end > range.begin;
  }

  std::deque<Waiting> frames_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_PENDING_PLACES_H_
