// SPDX-License-Identifier: Apache-2.0
//
// CutFrame: cuts a frame for a device that takes a bounded number of slices and bytes at a time.
// Beyond the bounds UCX divides a message by itself, and its receiver gathers the fragments in
// fresh memory. A policy without I/O. Thread-safety: a pure function.
#ifndef QUIRE_TRANSPORT_UCX_FRAMES_FRAME_CUTS_H_
#define QUIRE_TRANSPORT_UCX_FRAMES_FRAME_CUTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/frame_pipe.h"

namespace quire {

/// Bounds of what is sent at a time. REQUIRES: slices >= 1 and bytes >= packed_bytes >= 1.
struct CutBounds {
  size_t slices = SIZE_MAX;
  uint64_t packed_bytes = 1;    ///< Payload of at most this size may have any number of slices.
  uint64_t bytes = UINT64_MAX;  ///< Upper bound of the payload.

  /// Bytes that a payload within the bounds may have more.
  uint64_t RoomIn(const Payload& payload) const {
    const uint64_t most = payload.slices().size() < slices ? bytes : packed_bytes;
    return most - std::min<uint64_t>(most, payload.size_bytes());
  }
  bool Hold(const Payload& payload) const {
    return payload.size_bytes() <= (payload.slices().size() <= slices ? bytes : packed_bytes);
  }
};

/// Cuts `frame` into frames within `bounds`, in the order of its payload. The last one has the
/// head. All others have at least `packed_bytes`. A frame within the bounds stays as it is.
/// REQUIRES: the frame is for no landing.
inline std::vector<Frame> CutFrame(Frame frame, const CutBounds& bounds) {
  std::vector<Frame> cut;
  if (bounds.Hold(frame.payload)) {
    cut.push_back(std::move(frame));
    return cut;
  }
  Payload leases;
  leases.AddLeases(frame.payload);
  const auto next = [&] {
    cut.push_back({.head = {}, .priority = frame.priority});
    cut.back().payload.AddLeases(leases);
  };
  const std::vector<Slice> slices = std::move(frame.payload).TakeSlices();
  next();
  for (const Slice& slice : slices) {
    for (uint64_t done = 0; done < slice.bytes.size();) {
      if (bounds.RoomIn(cut.back().payload) == 0) next();
      Frame& last = cut.back();
      const auto take = std::min<uint64_t>(slice.bytes.size() - done, bounds.RoomIn(last.payload));
      last.payload.Append(Slice{slice.bytes.subspan(done, take), slice.owner});
      done += take;
    }
  }
  cut.back().head = std::move(frame.head);
  return cut;
}

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_FRAMES_FRAME_CUTS_H_
