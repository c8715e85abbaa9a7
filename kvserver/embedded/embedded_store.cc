// SPDX-License-Identifier: Apache-2.0
#include "kvserver/embedded/embedded_store.h"

#include <utility>

namespace quire {

StatusOr<std::unique_ptr<EmbeddedStore>> EmbeddedStore::Open(
    const kvserver::ServerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<kvserver::Server> server, kvserver::Server::Open(options));
  auto transport = std::make_shared<LoopbackTransport>(
      server->handler(), LoopbackTransport::Options{.max_message_bytes = options.max_message_bytes,
                                                    .clock = options.clock});
  return std::unique_ptr<EmbeddedStore>(
      new EmbeddedStore(options, std::move(server), std::move(transport)));
}

Status EmbeddedStore::Listen(kvserver::ListenerOptions listeners) {
  if (network_ != nullptr) return FailedPrecondition("the store listens already");
  if (listeners.shm_socket.empty()) {
    listeners.shm_socket = kvserver::DefaultShmSocket(options_.data_dir);
  }
  QUIRE_ASSIGN_OR_RETURN(
      network_, kvserver::NetworkServer::Start(*server_, options_, {.listeners = listeners}));
  return OkStatus();
}

}  // namespace quire
