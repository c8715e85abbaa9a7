// SPDX-License-Identifier: Apache-2.0
//
// Frames as both ends of a shared-memory connection check and receive them.
#ifndef QUIRE_TRANSPORT_SHM_SHM_FRAME_H_
#define QUIRE_TRANSPORT_SHM_SHM_FRAME_H_

#include <cstdint>

#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/shm/shm_borrower.h"
#include "transport/shm/shm_packet_reader.h"

namespace quire {

/// Whether the frame can be sent: RESOURCE_EXHAUSTED over the limits, INVALID_ARGUMENT for places
/// that are not one for each slice.
[[nodiscard]] Status CheckShmFrame(const Frame& frame, uint64_t max_frame_bytes);

/// The frame of a packet, whose parts it takes. All slices of one kind have one owner. `borrower`
/// has the regions; null at the server, where all slices must be inline. INVALID_ARGUMENT for
/// slices outside the regions.
[[nodiscard]] StatusOr<Frame> TakeShmFrame(ShmPacket& packet, ShmBorrower* borrower);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_FRAME_H_
