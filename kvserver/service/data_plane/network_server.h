// SPDX-License-Identifier: Apache-2.0
//
// NetworkServer: the network side of a Server: its gRPC port, which is the control channel, and the
// listeners of the data plane. The daemon uses it, and so do programs that embed a server behind a
// real transport. Ownership: the Server outlives it. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_KVSERVER_SERVICE_DATA_PLANE_NETWORK_SERVER_H_
#define QUIRE_KVSERVER_SERVICE_DATA_PLANE_NETWORK_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/observe/metrics.h"
#include "kvserver/service/data_plane/listeners.h"
#include "kvserver/service/server.h"
#include "kvserver/service/server_options.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/auth/tenant_tokens.h"
#include "transport/grpc/grpc_server.h"

namespace quire::kvserver {

class NetworkServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";  ///< gRPC address, as GrpcServer::Options::address.
    int max_call_threads = 64;           ///< Threads for gRPC calls; streams have their own.
    int max_streams = 64;                ///< Data connections over gRPC.
    std::shared_ptr<const TenantTokens> tokens = nullptr;  ///< As GrpcServer::Options::tokens.
    ListenerOptions listeners = {};
  };
  /// Errors: those of GrpcServer::Start and of StartListeners.
  static StatusOr<std::unique_ptr<NetworkServer>> Start(Server& server,
                                                        const ServerOptions& server_options,
                                                        const Options& options);
  /// Shuts down at once.
  ~NetworkServer();

  const std::string& address() const { return grpc_->address(); }
  int port() const { return grpc_->port(); }  ///< 0 for a Unix socket.
  const std::vector<LeftOut>& left_out() const { return left_out_; }

  /// Stops new data connections and calls over them, and waits up to `grace` for running ones. Then
  /// ends them, and gRPC as GrpcServer::Shutdown does in the remaining time. Idempotent.
  void Shutdown(Duration grace);

  /// Visits GrpcServer's metrics; the rest is the Server's.
  void VisitMetrics(MetricsVisitor& visit) const { grpc_->VisitMetrics(visit); }

 private:
  NetworkServer(Server& server, std::unique_ptr<GrpcServer> grpc)
      : server_(server), grpc_(std::move(grpc)) {}

  Server& server_;
  const std::unique_ptr<GrpcServer> grpc_;
  std::vector<LeftOut> left_out_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DATA_PLANE_NETWORK_SERVER_H_
