// SPDX-License-Identifier: Apache-2.0
//
// Checks and decoding of frames, for both ends of a shared-memory connection.
#ifndef QUIRE_TRANSPORT_SHM_SHM_FRAME_H_
#define QUIRE_TRANSPORT_SHM_SHM_FRAME_H_

#include <cstdint>

#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/shm/shm_packet_reader.h"
#include "transport/shm/shm_peer_memory.h"

namespace quire {

/// Checks that the frame can be sent. RESOURCE_EXHAUSTED over the limits; INVALID_ARGUMENT unless
/// there are no places or one for each slice.
[[nodiscard]] Status CheckShmFrame(const Frame& frame, uint64_t max_frame_bytes);

/// Makes a frame of a packet, whose parts it takes. All slices of one kind have one owner. `lender`
/// holds the peer's regions; without one all slices must be inline. INVALID_ARGUMENT for slices
/// outside the regions.
[[nodiscard]] StatusOr<Frame> TakeShmFrame(ShmPacket& packet, ShmPeerMemory* lender);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_FRAME_H_
