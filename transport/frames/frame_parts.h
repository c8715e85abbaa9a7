// SPDX-License-Identifier: Apache-2.0
//
// Conversion between messages and frames, and the arithmetic of limits and credit common to both
// ends of a connection. Thread-safety: pure functions.
#ifndef QUIRE_TRANSPORT_FRAMES_FRAME_PARTS_H_
#define QUIRE_TRANSPORT_FRAMES_FRAME_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/payload.h"
#include "common/base/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/frame.h"
#include "transport/transport.h"

namespace quire {

/// Room in a frame in addition to a message: the header, the method's name, places of some thousand
/// slices.
inline constexpr uint64_t kFrameRoomBytes = 64 << 10;

/// The largest message over `pipe`: `wanted`, or the limit of its frames.
inline uint64_t MessageLimitOf(const FramePipe& pipe, uint64_t wanted) {
  const uint64_t frame = pipe.capabilities().max_frame_bytes;
  return std::min(wanted, frame > kFrameRoomBytes ? frame - kFrameRoomBytes : 0);
}

/// Least number of bytes in which a client returns credit.
inline uint64_t CreditStep(uint64_t window_bytes) {
  return std::max<uint64_t>(1, window_bytes / 4);
}
/// The credit that a part of `bytes` needs. A part larger than the window must be sent all the
/// same. A rest below a credit step must never stop the call. Needing no more than a step lets the
/// next of two large parts begin before the client has all of the first.
inline uint64_t CreditNeeded(uint64_t bytes, uint64_t window_bytes) {
  return std::min(bytes, CreditStep(window_bytes));
}

/// Returns the payload with an owner for each slice. Copies slices without one, because a pipe may
/// hold a frame longer than the call that sent it.
Payload WithOwners(Payload payload);

/// The content of a frame of a part. INVALID_ARGUMENT if head and payload do not match.
StatusOr<CallMessage> PartOf(const FrameHead& head, Frame frame);

/// Makes a frame of each of PiecesOf(part, piece_bytes).
std::vector<Frame> FramesOfPart(uint64_t call_id, uint64_t landing, CallMessage part,
                                uint64_t piece_bytes);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_PARTS_H_
