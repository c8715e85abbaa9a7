// SPDX-License-Identifier: Apache-2.0
//
// A connected pair of pipes in one process, for tests and simulation: frames wait in a bounded
// queue for each direction and are delivered by a thread of the receiving end. Payload slices are
// handed over, not copied.
// Thread-safety: as FramePipe. Ownership: the ends share what is between them and may be destroyed
// in any order.
#ifndef QUIRE_TRANSPORT_LOCAL_INPROC_PIPE_H_
#define QUIRE_TRANSPORT_LOCAL_INPROC_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/frame_pipe.h"

namespace quire {

struct InprocOptions {
  uint64_t max_frame_bytes = uint64_t{64} << 20;
  size_t queue_frames = 8;  ///< Taken and not yet delivered, each direction; at least 1.
  /// Payload with places is copied into a landing that the server has opened, like a device would.
  bool direct_landing = false;
  uint64_t piece_bytes = UINT64_MAX;
};

struct InprocPair {
  std::unique_ptr<FramePipe> client;
  std::unique_ptr<FramePipe> server;
};
InprocPair MakeInprocPair(const InprocOptions& options);

/// Ends the connection as the death of one end's process would: what is queued is lost, and both
/// ends are told. REQUIRES: `pipe` is of MakeInprocPair.
void DropInprocConnection(FramePipe& pipe);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_LOCAL_INPROC_PIPE_H_
