// SPDX-License-Identifier: Apache-2.0
//
// The UCX pipe, as the rest of the program sees it: this header exists in every build, also without
// UCX, and includes nothing of it. Decisions and what they cost: docs/design/0014-ucx.md.
#ifndef QUIRE_TRANSPORT_UCX_UCX_H_
#define QUIRE_TRANSPORT_UCX_UCX_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

/// Both ends should be given the same. Nothing is read from the process environment but UCX's own
/// variables: they go over the defaults, and what is asked for by name here over them.
struct UcxOptions {
  /// UCX then reports a dead peer on every lane, and leaves out the lanes that cannot: shared
  /// memory. Without it a dead peer is reported by the TCP connection that set the endpoint up.
  /// Servers and clients have it: off, tests have lanes of shared memory that write remote memory.
  bool peer_failure_detection = true;
  /// The server writes into landings itself where the endpoint has a lane for that (RDMA). It gives
  /// the peer remote memory access to this process: for fabrics on which every peer is trusted.
  bool direct_landings = false;
  std::string transports = {};  ///< As UCX_TLS, e.g. "tcp,rc"; empty for all.
  std::string devices = {};     ///< As UCX_NET_DEVICES; empty: by the address.
  uint64_t max_frame_bytes = uint64_t{64} << 20;
  /// What the peer may be sent before it has taken it: a frame waits in Send while it is that much,
  /// not counting less urgent frames that wait behind it. So it is that much for each priority.
  uint64_t queue_bytes = uint64_t{16} << 20;
  /// What UCX has of that at a time to send, since it sends in order: the rest waits where urgent
  /// frames pass it. Of each priority and the more urgent ones together.
  uint64_t given_bytes = uint64_t{2} << 20;
  uint64_t piece_bytes = uint64_t{1} << 20;  ///< Payload is cut into frames of this size.
  /// Of TCP lanes. UCX cuts a frame that does not fit in one, and copies it once more.
  uint64_t segment_bytes = uint64_t{1280} << 10;
  /// Frames from this size on go by rendezvous; UINT64_MAX for none. None do without
  /// peer_failure_detection (docs/design/0014).
  uint64_t rendezvous_bytes = UINT64_MAX;
  /// How long an idle worker polls before it sleeps: longer than the peer takes to fill a frame, so
  /// that nobody sleeps in the middle of a reply.
  Duration busy_poll = std::chrono::microseconds(200);
  Duration connect_timeout = std::chrono::seconds(5);
  /// How long the peer may take to confirm that it has stopped writing into a landing, and to let
  /// what was written into one of its own arrive: then the connection ends.
  Duration peer_timeout = std::chrono::seconds(10);
  uint32_t max_handshakes = 64;  ///< Connections that a listener is still setting up.
};

/// Whether this build has UCX. Without it the two below answer UNIMPLEMENTED.
bool UcxAvailable();

/// Connects to a listener at `address`, "host:port". UNAVAILABLE when nobody answers there within
/// the timeout, INVALID_ARGUMENT for what is no address or for options that UCX refuses.
[[nodiscard]] StatusOr<std::unique_ptr<FramePipe>> ConnectUcx(const std::string& address,
                                                              const UcxOptions& options);

/// Listens at `address`; port 0 for any. `accept` is called from the listener's thread, which also
/// serves the pipes that it accepted.
[[nodiscard]] StatusOr<std::unique_ptr<PipeListener>> ListenUcx(const std::string& address,
                                                                const UcxOptions& options,
                                                                PipeListener::Accept accept);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_H_
