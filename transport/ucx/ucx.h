// SPDX-License-Identifier: Apache-2.0
//
// The UCX pipe as other code sees it. This header exists in every build, also without UCX, and
// includes nothing of UCX. Decisions and costs: docs/design/0014-ucx.md.
#ifndef QUIRE_TRANSPORT_UCX_UCX_H_
#define QUIRE_TRANSPORT_UCX_UCX_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "transport/frame_pipe.h"

namespace quire {

/// Options, best the same at both ends. The process environment supplies only UCX's own variables.
/// They override the defaults, and options named here override them.
struct UcxOptions {
  /// Makes UCX report a dead peer on every lane, and drop the lanes that cannot: shared memory.
  /// Without it a dead peer is reported by the TCP connection that set up the endpoint. Servers and
  /// clients keep it on. Tests turn it off to get shared-memory lanes that write remote memory.
  bool peer_failure_detection = true;
  /// The server writes into landings itself where the endpoint has a lane for that (RDMA). The peer
  /// gets remote memory access to this process: use it only on fabrics of trusted peers.
  bool direct_landings = false;
  std::string transports = {};  ///< As UCX_TLS, for example "tcp,rc"; empty for all.
  std::string devices = {};     ///< As UCX_NET_DEVICES; empty: chosen by the address.
  uint64_t max_frame_bytes = uint64_t{64} << 20;
  /// Most bytes that the peer has been sent and has not taken; further frames wait in Send. Less
  /// urgent frames that wait do not count, so the limit holds for each priority.
  uint64_t queue_bytes = uint64_t{16} << 20;
  /// Most bytes that UCX has at a time to send, for each priority with the more urgent ones. UCX
  /// sends in order; frames that wait outside can be overtaken by urgent ones.
  uint64_t given_bytes = uint64_t{2} << 20;
  uint64_t piece_bytes = uint64_t{1} << 20;  ///< Payload is cut into frames of this size.
  /// Segment size of TCP lanes. UCX splits a larger frame, and copies it once more.
  uint64_t segment_bytes = uint64_t{1280} << 10;
  /// Frames of at least this size go by rendezvous; UINT64_MAX for none. None do without
  /// peer_failure_detection (docs/design/0014).
  uint64_t rendezvous_bytes = UINT64_MAX;
  /// How long an idle worker polls before it sleeps. It should exceed the time in which the peer
  /// fills a frame, so that no end sleeps in the middle of a reply.
  Duration busy_poll = std::chrono::microseconds(200);
  Duration connect_timeout = std::chrono::seconds(5);
  /// Time for the peer to confirm that it no longer writes into a landing, and to let writes into
  /// its own landing arrive. Exceeding it ends the connection.
  Duration peer_timeout = std::chrono::seconds(10);
  uint32_t max_handshakes = 64;  ///< Most connections that a listener sets up at a time.
};

/// True if this build has UCX. Without it the two functions below return UNIMPLEMENTED.
bool UcxAvailable();

/// Connects to a listener at `address`, "host:port". UNAVAILABLE when none answers within the
/// timeout; INVALID_ARGUMENT for a malformed address or for options that UCX refuses.
[[nodiscard]] StatusOr<std::unique_ptr<FramePipe>> ConnectUcx(const std::string& address,
                                                              const UcxOptions& options);

/// Listens at `address`; port 0 for any. `accept` is called from the listener's thread, which also
/// serves the accepted pipes.
[[nodiscard]] StatusOr<std::unique_ptr<PipeListener>> ListenUcx(const std::string& address,
                                                                const UcxOptions& options,
                                                                PipeListener::Accept accept);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_H_
