// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/network_server.h"

#include <algorithm>
#include <utility>

#include "kvserver/service/data_plane/data_plane.h"

namespace quire::kvserver {

StatusOr<std::unique_ptr<NetworkServer>> NetworkServer::Start(Server& server,
                                                              const ServerOptions& server_options,
                                                              const Options& options) {
  const bool streams = options.listeners.Wants("grpc");
  GrpcServer::Options grpc{.address = options.listen,
                           .max_message_bytes = server_options.max_message_bytes,
                           .max_threads = options.max_call_threads,
                           .max_calls_per_tenant = server_options.max_concurrent_calls +
                                                   2 * server_options.max_queued_calls_per_tenant,
                           .stall_timeout = std::chrono::seconds(server_options.stall_seconds),
                           .tokens = options.tokens,
                           .health = server_options.health};
  if (streams) {
    grpc.accept_pipe = server.data_plane().accept();
    grpc.max_streams = options.max_streams;
    grpc.max_threads += options.max_streams;
  }
  QUIRE_ASSIGN_OR_RETURN(auto listener, GrpcServer::Start(grpc, server.handler()));
  std::unique_ptr<NetworkServer> self(new NetworkServer(server, std::move(listener)));
  if (streams) server.data_plane().OfferGrpc();
  QUIRE_ASSIGN_OR_RETURN(
      self->left_out_,
      StartListeners({server, server_options, options.listeners}, ListenerKinds()));
  return self;
}

NetworkServer::~NetworkServer() { Shutdown(Duration::zero()); }

void NetworkServer::Shutdown(Duration grace) {
  const TimePoint limit = SystemClock().Now() + grace;
  server_.data_plane().Shutdown(grace);
  grpc_->Shutdown(std::max(limit - SystemClock().Now(), Duration::zero()));
}

}  // namespace quire::kvserver
