// SPDX-License-Identifier: Apache-2.0
//
// GrpcServer: listens, and hands every call to a CallHandler. Besides the handler's methods it
// answers the standard health service (grpc.health.v1.Health). There is no server reflection: each
// of its streams would hold a thread for as long as any caller likes.
//
// The tenant comes from the call metadata "quire-tenant" ("default" when absent), and how urgent
// the call is from "quire-priority" (normal when absent). With tokens a call has to prove its
// tenant (grpc_auth.h), health checks excepted. Calls run on gRPC's threads, at most `max_threads`
// at a time and of a tenant `max_calls_per_tenant`; further ones get RESOURCE_EXHAUSTED and a retry
// hint. One connection has no more than half of the threads; a call whose answer is not taken in
// time is cancelled, and one that would be refused while a quarter as many refusals are being sent
// is cancelled at once. Streams of quire.v1.DataPlane/Frames are handed on as pipes where somebody
// accepts them.
// Thread-safety: Shutdown and the accessors may be called from any thread.
// Ownership: the handler and who accepts pipes outlive the server.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_SERVER_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/health.h"
#include "common/base/metrics.h"
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
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Each direction.
    int max_threads = 64;                                        ///< >= 4 + max_streams
    uint32_t max_calls_per_tenant = UINT32_MAX;  ///< That hold a thread; streams have their own.
    /// How long a client may take nothing of an answer; large ones have more (grpc_calls.h).
    Duration stall_timeout = std::chrono::seconds(30);
    PipeListener::Accept accept_pipe = nullptr;            ///< Null: there are no streams.
    int max_streams = 0;                                   ///< At a time; each holds a thread.
    std::shared_ptr<const TenantTokens> tokens = nullptr;  ///< Null: every caller is believed.
    Health* health = nullptr;  ///< Told of callers that are not; may be null, outlives the server.
  };
  /// Errors: INVALID_ARGUMENT for options out of range, and for what is no address; ALREADY_EXISTS
  /// for a Unix socket in use; UNAVAILABLE, naming the address, when it cannot be listened on.
  static StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options, CallHandler* handler);
  /// Shuts down at once.
  ~GrpcServer();

  /// Where clients connect: the address asked for, with the port that was taken.
  const std::string& address() const { return address_; }
  int port() const;  ///< 0 for a Unix socket.

  /// Reports NOT_SERVING, takes no more calls, waits up to `grace` for those that run and for the
  /// streams that are open, and for nothing else, then cancels them; returns when every handler has
  /// returned. Idempotent.
  void Shutdown(Duration grace);

  /// Of calls that were refused here, before the handler saw them.
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
