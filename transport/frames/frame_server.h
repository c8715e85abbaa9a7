// SPDX-License-Identifier: Apache-2.0
//
// FrameServer: the server's end of connections. Listeners hand it pipes. It checks the ticket of
// each, gives it a number, and hands its calls to a CallHandler.
//
// Everything is bounded: connections in all and per tenant, the calls and request bytes of a
// connection, the threads that run calls, and the reply bytes in flight. A client that takes no
// part of a reply for the stall timeout loses the call. One that takes no bytes at all loses the
// connection.
// Thread-safety: all methods may be called concurrently.
// Ownership: the handler, and the objects that the ticket checker uses, outlive it.
#ifndef QUIRE_TRANSPORT_FRAMES_FRAME_SERVER_H_
#define QUIRE_TRANSPORT_FRAMES_FRAME_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/base/threads/periodic_task.h"
#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/call_threads.h"
#include "transport/frames/server_connection.h"
#include "transport/transport.h"

namespace quire {

class FrameServer {
 public:
  /// Redeems a ticket for a connection of `kind`, and returns its tenant. UNAUTHENTICATED for an
  /// unknown, expired or used ticket. Called from pipes' threads; must not block.
  using TicketChecker =
      std::function<StatusOr<std::string>(std::string_view kind, std::string_view ticket)>;

  struct Options {
    /// Limited also by the largest frame.
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;
    uint64_t part_bytes = 1 << 20;  ///< Part size that handlers should keep to.
    /// Largest window of a call, whatever the client asks for.
    uint64_t max_window_bytes = uint64_t{256} << 20;
    /// Most request bytes of a connection's running calls.
    uint64_t max_request_bytes = uint64_t{256} << 20;
    uint32_t max_calls = 64;     ///< Most calls of a connection at a time.
    uint32_t max_threads = 256;  ///< At least 2.
    uint32_t max_connections = 1024;
    uint32_t max_connections_per_tenant = 64;
    Duration hello_timeout = std::chrono::seconds(5);
    Duration stall_timeout = std::chrono::seconds(10);
    /// Receives connections and calls that are refused or ended; may be null, and outlives the
    /// server.
    Health* health = nullptr;
  };

  FrameServer(CallHandler* handler, TicketChecker check_ticket, const Options& options);
  /// As Shutdown.
  ~FrameServer();

  /// Takes over a pipe that has not been started. Closes it at once over max_connections.
  void Accept(std::unique_ptr<FramePipe> pipe);

  /// Hands the key of a landing to the connection's pipe. NOT_FOUND if the tenant has no such
  /// connection; RESOURCE_EXHAUSTED over wire::kMaxLandings; INVALID_ARGUMENT for a malformed key,
  /// or a size or number out of range.
  Status OpenLanding(std::string_view tenant, uint64_t connection, uint64_t landing,
                     std::string_view key, uint64_t bytes);
  /// Closes a landing; nothing is written there after it returns. OK if there is none.
  Status CloseLanding(std::string_view tenant, uint64_t connection, uint64_t landing);

  /// Takes no more pipes and calls, and waits up to `grace` for running calls. Then ends every
  /// connection and waits for the handlers. Idempotent. Not from inside a handler.
  void Shutdown(Duration grace = Duration::zero());

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  using ConnectionPtr = std::shared_ptr<ServerConnection>;

  Status Admit(ServerConnection& connection, const FrameHead& hello);
  ConnectionPtr Find(std::string_view tenant, uint64_t connection) const;
  uint64_t NewId() QUIRE_REQUIRES(mutex_);
  /// Ends stuck connections and removes ended ones.
  void Sweep();

  CallHandler* const handler_;
  const TicketChecker check_ticket_;
  const Options options_;
  ConnectionCounters counters_;
  CallThreads threads_;
  mutable Mutex mutex_;
  std::map<uint64_t, ConnectionPtr> connections_ QUIRE_GUARDED_BY(mutex_);
  std::set<std::string> kinds_ QUIRE_GUARDED_BY(mutex_);  ///< Seen so far.
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;
  PeriodicTask sweeper_;  ///< Last member, because it uses the others.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_SERVER_H_
