// SPDX-License-Identifier: Apache-2.0
//
// GrpcServer: listens, and hands every call to a CallHandler. It also answers the standard health
// service (grpc.health.v1.Health). There is no server reflection: each of its streams would hold a
// thread for as long as a caller likes.
//
// - Tenant: call metadata "quire-tenant", "default" when absent.
// - Priority: call metadata "quire-priority", normal when absent.
// - Trace: call metadata "traceparent"; one that is malformed is ignored.
// - Tokens: with tokens a call must prove its tenant (grpc_auth.h); health checks are exempt.
// - Threads: at most `max_threads` calls at a time, at most `max_calls_per_tenant` of one tenant,
//   at most half of the threads for one connection. Further calls get RESOURCE_EXHAUSTED and a
//   retry hint.
// - Slow readers: a call whose answer is not read in time is cancelled.
// - Refusals: at most a quarter as many are sent at a time as calls may run; further calls to
//   refuse are cancelled at once.
// - Streams of quire.v1.DataPlane/Frames become pipes for `accept_pipe`.
//
// Thread-safety: Shutdown and the accessors may be called from any thread.
// Ownership: the handler and the acceptor of pipes outlive the server.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_SERVER_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/auth/tenant_tokens.h"
#include "transport/frame_pipe.h"
#include "transport/transport.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace quire {

class CallerCheck;
class GrpcCalls;
class GrpcListening;
class GrpcPipeMethod;

class GrpcServer {
 public:
  struct Options {
    std::string address =
        "127.0.0.1:0";  ///< "host:port" (port 0 takes a free one) or "unix:/path".
    /// Largest message in each direction.
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;
    int max_threads = 64;  ///< >= 4 + max_streams
    /// Most calls that hold a thread; streams count separately.
    uint32_t max_calls_per_tenant = UINT32_MAX;
    /// How long a client may read nothing of an answer; large answers have more time
    /// (grpc_calls.h).
    Duration stall_timeout = std::chrono::seconds(30);
    PipeListener::Accept accept_pipe = nullptr;  ///< Null: no streams.
    /// Most streams at a time; each holds a thread.
    int max_streams = 0;
    std::shared_ptr<const TenantTokens> tokens = nullptr;  ///< Null: every caller is believed.
    /// Receives callers that fail the check; may be null, outlives the server.
    Health* health = nullptr;
  };
  /// Errors: INVALID_ARGUMENT for options out of range and for a malformed address; ALREADY_EXISTS
  /// for a Unix socket in use; UNAVAILABLE, naming the address, when listening fails.
  static StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options, CallHandler* handler);
  /// Shuts down at once.
  ~GrpcServer();

  /// Where clients connect: the address asked for, with the actual port.
  const std::string& address() const { return address_; }
  int port() const;  ///< 0 for a Unix socket.

  /// Reports NOT_SERVING, takes no more calls, and waits up to `grace` for running calls and open
  /// streams. Then cancels them, and returns when every handler has returned. Idempotent.
  void Shutdown(Duration grace);

  /// Metrics of the calls refused here, before the handler.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  GrpcServer(std::shared_ptr<const TenantTokens> tokens, Health* health);

  const std::unique_ptr<CallerCheck> callers_;
  std::unique_ptr<GrpcListening> listening_;
  std::string address_;
  std::unique_ptr<GrpcCalls> calls_;
  std::unique_ptr<GrpcPipeMethod> pipes_;  ///< Null without streams.
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_SERVER_H_
