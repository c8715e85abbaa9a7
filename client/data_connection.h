// SPDX-License-Identifier: Apache-2.0
//
// ConnectData: the client's choice of how pages come. It asks the server for its offers over the
// control channel, tries them in the server's order, and says which it took and why not the others.
#ifndef QUIRE_CLIENT_DATA_CONNECTION_H_
#define QUIRE_CLIENT_DATA_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/pipe_dialers.h"
#include "common/base/clock.h"
#include "common/base/host_id.h"
#include "common/base/status.h"
#include "common/wire/limits.h"
#include "transport/auth/bearer_token.h"
#include "transport/transport.h"

namespace quire {

/// What a worker spins for pages before it sleeps: it has nothing else to do.
inline constexpr Duration kWorkerSpin = std::chrono::microseconds(300);

struct DataOptions {
  std::string transport = "auto";  ///< "grpc", "shm" or "ucx"; "auto": the first that works.
  /// Takes "ucx" on the server's own host, too. Without it "ucx" means shm there, where the server
  /// offers that: UCX is for the network.
  bool ucx_within_host = false;
  std::string tenant = "default";
  BearerToken token = {};       ///< As ConnectOptions::token of `control`; for streams of gRPC.
  std::string control_address;  ///< Of the control channel, for offers that mean its host.
  uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Each direction.
  uint64_t window_bytes = uint64_t{32} << 20;  ///< Of a reply, that nobody has taken yet.
  Duration timeout = std::chrono::seconds(5);  ///< Limit of each step.
  /// End of everything done with the connection's control channel, on SystemClock().
  TimePoint limit = TimePoint::max();
  std::string host_id = ReadHostId();  ///< Of this process.
  Duration spin = {};                  ///< FrameClient::Options::spin.
  /// Gives a server that writes into landings remote access to this process's memory (UCX, RDMA).
  bool direct_landings = false;
  std::span<const PipeDialer> dialers = PipeDialers();
};

/// Outcome of the choice, for people.
struct DataReport {
  struct PassedOver {
    std::string kind;
    std::string why;
  };
  std::string taken;   ///< "shm", "ucx", "ucx-direct" (the server writes into landings), "grpc"
  std::string detail;  ///< What the pipe says of itself; may be empty.
  std::vector<PassedOver> passed_over;

  /// "grpc (not shm: another host; not ucx: not built here)"
  std::string Summary() const;
};

struct DataConnection {
  std::shared_ptr<Transport> transport;
  DataReport report;
};

/// Connects once, and gives up at `deadline` (SystemClock()), whatever steps are left. Errors:
/// INVALID_ARGUMENT for a transport that nobody knows; those of the control channel (UNIMPLEMENTED
/// from a server without data connections); UNAVAILABLE, with the reason of each offer, when none
/// works; DEADLINE_EXCEEDED. Ownership: the connection keeps `control`, over which landings are
/// announced. Thread-safety: as often and from as many threads as wanted.
[[nodiscard]] StatusOr<DataConnection> ConnectData(const std::shared_ptr<Transport>& control,
                                                   const DataOptions& options,
                                                   TimePoint deadline = TimePoint::max());

}  // namespace quire

#endif  // QUIRE_CLIENT_DATA_CONNECTION_H_
