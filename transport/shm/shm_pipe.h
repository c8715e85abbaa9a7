// SPDX-License-Identifier: Apache-2.0
//
// ConnectShm: the client end of a shared-memory connection to a server on the same host
// (shm_listener.h). Received payload lies in the server's memory, mapped here read only. Its owner
// is a lease, released with the last copy. Payload may outlive the pipe.
//
// A server ends leases that are held for too long, and their connections
// (ShmListener::Options::max_lease). It may then reuse the memory. A caller that needs bytes for
// longer copies them. A copy is valid if it was made before the connection ended, or if it passes
// its checksum.
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
  /// Most bytes queued by frames sent from inside a receiver call, which do not wait for room in
  /// the socket. Exceeding it ends the connection.
  uint64_t max_queued_bytes = 32 << 20;
  /// Longest time that the server may read nothing; exceeding it ends the connection.
  Duration stall_timeout = std::chrono::seconds(10);
  /// Time for admission and greeting.
  Duration connect_timeout = std::chrono::seconds(5);
  /// Memory for large payloads of requests, which the server reads where they were copied to; 0:
  /// all go through the socket. At most kLargestShmClientRegion.
  uint64_t copy_in_bytes = 64 << 20;
  /// How long the receiving thread spins before it sleeps; spinning answers faster and occupies a
  /// CPU.
  Duration spin = Duration::zero();
};

/// Connects to the listener at `path`. UNAVAILABLE when no server listens there or it refuses this
/// process; FAILED_PRECONDITION for a server of another version.
[[nodiscard]] StatusOr<std::unique_ptr<FramePipe>> ConnectShm(const std::string& path,
                                                              const ShmConnectOptions& options);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_PIPE_H_
