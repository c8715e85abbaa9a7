// SPDX-License-Identifier: Apache-2.0
//
// ConnectShm: the client end of a shared-memory connection to a server on the same host
// (shm_listener.h). Payload that it receives lies in the server's memory, which is mapped here read
// only; its owner is a lease, given back with the last copy. Payload may outlive the pipe.
//
// A server ends leases that are held for too long, and their connections
// (ShmListener::Options::max_lease), and may then use the memory for something else: whoever needs
// bytes for longer copies them, and trusts a copy that was made before the end of the connection or
// that passes its checksum.
#ifndef QUIRE_TRANSPORT_SHM_SHM_PIPE_H_
#define QUIRE_TRANSPORT_SHM_SHM_PIPE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

struct ShmConnectOptions {
  /// Of frames sent from inside a receiver call, which do not wait for room in the socket; with
  /// more the connection ends.
  uint64_t max_queued_bytes = 32 << 20;
  /// The server loses the connection when it takes no bytes for so long.
  Duration stall_timeout = std::chrono::seconds(10);
  /// To be let in and greeted.
  Duration connect_timeout = std::chrono::seconds(5);
  /// How long the receiving thread looks for more before it sleeps: faster answers for a busy CPU.
  Duration spin = Duration::zero();
};

/// Connects to the listener at `path`. UNAVAILABLE when nobody listens there or it does not let
/// this process in; FAILED_PRECONDITION for a server of another version.
[[nodiscard]] StatusOr<std::unique_ptr<FramePipe>> ConnectShm(const std::string& path,
                                                              const ShmConnectOptions& options);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_PIPE_H_
