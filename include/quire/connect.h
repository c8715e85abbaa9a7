// SPDX-License-Identifier: Apache-2.0
//
// Connections to a server: the control channel that every client needs, and a faster connection for
// recalls. Thread-safety: functions and transports are safe for concurrent use.
#ifndef QUIRE_CONNECT_H_
#define QUIRE_CONNECT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quire/bearer_token.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

/// A connection, made and kept by this library. Give it to Client::Options.
class Transport;

/// Control and payload of a message together, each direction, unless a server is told otherwise.
inline constexpr uint64_t kDefaultMaxMessageBytes = uint64_t{64} << 20;

struct ConnectOptions {
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;  ///< Each direction.
  /// Proves the tenant that calls name, to a server that asks for it; nothing prints it. It
  /// travels in the clear: over a Unix socket, a private network, or a proxy that encrypts.
  BearerToken token = {};
};

/// A transport to the server at `address` ("host:port", "[::1]:port" or "unix:/path"). It connects
/// at the first call, and again after a loss: whether the server is there shows then.
StatusOr<std::shared_ptr<Transport>> ConnectGrpc(const std::string& address,
                                                 const ConnectOptions& options = {});

/// A fit `spin` for a worker, which has nothing else to do while it waits for pages.
inline constexpr Duration kWorkerSpin = std::chrono::microseconds(300);

struct DataOptions {
  std::string transport = "auto";  ///< "grpc", "shm" or "ucx"; "auto": the first that works.
  /// Takes "ucx" on the server's own host, too. Without it "ucx" means shm there, where the server
  /// offers that: UCX is for the network.
  bool ucx_within_host = false;
  std::string tenant = "default";
  BearerToken token = {};       ///< As ConnectOptions::token of `control`; for streams of gRPC.
  std::string control_address;  ///< The control channel's; offers may mean its host.
  uint64_t max_message_bytes = kDefaultMaxMessageBytes;  ///< Each direction.
  uint64_t window_bytes = uint64_t{32} << 20;            ///< Untaken bytes of a reply, at most.
  Duration timeout = std::chrono::seconds(5);            ///< Limit of each step.
  /// End of everything done with the connection's control channel, on SystemClock().
  TimePoint limit = TimePoint::max();
  /// Time for which a thread that waits for a reply polls before it sleeps. It trades processor
  /// time for latency.
  Duration spin = {};
  /// Gives a server that writes into landings remote access to this process's memory (UCX, RDMA).
  bool direct_landings = false;
};

/// Outcome of the choice, for people.
struct DataReport {
  struct PassedOver {
    std::string kind;
    std::string why;
  };
  std::string taken;   ///< "shm", "ucx", "ucx-direct" (the server writes into landings), "grpc"
  std::string detail;  ///< Description by the pipe; may be empty.
  std::vector<PassedOver> passed_over;

  /// "grpc (not shm: another host; not ucx: not built here)"
  std::string Summary() const;
};

struct DataConnection {
  std::shared_ptr<Transport> transport;  ///< For Client::Options::data_transport.
  DataReport report;
};

/// Opens a connection for recalls: the first kind that client and server both have, or the one that
/// `options` name. The connection is made again after a loss. `on_other_way` is called from the
/// connecting thread when that takes another kind; it may be empty. `control` is kept.
///
/// Errors: INVALID_ARGUMENT for an unknown kind; UNAVAILABLE, with the reason of each offer, when
/// none works; those of `control`; DEADLINE_EXCEEDED.
[[nodiscard]] StatusOr<DataConnection> ConnectData(
    const std::shared_ptr<Transport>& control, const DataOptions& options,
    std::function<void(const DataReport&)> on_other_way = {});

}  // namespace quire

#endif  // QUIRE_CONNECT_H_
