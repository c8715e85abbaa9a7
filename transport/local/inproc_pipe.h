// SPDX-License-Identifier: Apache-2.0
//
// A connected pair of pipes in one process, for tests and simulation. Frames wait in a bounded
// queue for each direction. A thread of the receiving end delivers them. Payload slices are handed
// over, not copied.
// Thread-safety: as FramePipe.
// Ownership: the ends share their state and may be destroyed in any order.
#ifndef QUIRE_TRANSPORT_LOCAL_INPROC_PIPE_H_
#define QUIRE_TRANSPORT_LOCAL_INPROC_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/frame_pipe.h"

namespace quire {

struct InprocOptions {
  uint64_t max_frame_bytes = uint64_t{64} << 20;
  size_t queue_frames = 8;  ///< Capacity of the queue in each direction; at least 1.
  /// Copy payload with places into a landing that the server has opened, as a device would.
  bool direct_landing = false;
  uint64_t piece_bytes = UINT64_MAX;
};

struct InprocPair {
  std::unique_ptr<FramePipe> client;
  std::unique_ptr<FramePipe> server;
};
InprocPair MakeInprocPair(const InprocOptions& options);

/// Ends the connection as the death of one end's process would: queued frames are lost, and both
/// ends get OnClosed. REQUIRES: `pipe` was made by MakeInprocPair.
void DropInprocConnection(FramePipe& pipe);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_LOCAL_INPROC_PIPE_H_
