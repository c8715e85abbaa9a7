// SPDX-License-Identifier: Apache-2.0
//
// PendingPlaces: where frames that wait to be written will be written. A frame for the same bytes
// must not be written before them. Thread-safety: none.
#ifndef QUIRE_COMMON_TRANSPORT_PENDING_PLACES_H_
#define QUIRE_COMMON_TRANSPORT_PENDING_PLACES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "common/transport/frame_ranges.h"

namespace quire {

class PendingPlaces {
 public:
  size_t size() const { return frames_.size(); }
  /// A frame for those bytes waits from now on, under the number that is answered; never 0.
  uint64_t Add(FrameRanges ranges) {
    frames_.emplace(++last_, std::move(ranges));
    return last_;
  }
  /// It is written.
  void Remove(uint64_t number) { frames_.erase(number); }
  /// Whether a frame that waits is for any of those bytes.
  bool Overlap(const FrameRanges& ranges) const {
    return std::ranges::any_of(frames_,
                               [&](const auto& waiting) { return waiting.second.Overlap(ranges); });
  }

 private:
  uint64_t last_ = 0;
  std::map<uint64_t, FrameRanges> frames_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_PENDING_PLACES_H_
