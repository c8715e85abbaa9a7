// SPDX-License-Identifier: Apache-2.0
//
// EmbeddedStore: a Quire server inside the caller's process, reached through a Transport like any
// other. Use it to try Quire; the demo and the tests do.
//
//   QUIRE_ASSIGN_OR_RETURN(auto store, EmbeddedStore::Open({.data_dir = dir}));
//   QUIRE_ASSIGN_OR_RETURN(auto client, Client::Create({.transport = store->transport()}));
//
// Listen adds the real transports on this machine, to try them, and for workers in other processes.
//
// Ownership: owns the server. Transports stay valid after the store is destroyed, and then answer
// UNAVAILABLE.
// Thread-safety: everything may be used concurrently.
#ifndef QUIRE_KVSERVER_EMBEDDED_EMBEDDED_STORE_H_
#define QUIRE_KVSERVER_EMBEDDED_EMBEDDED_STORE_H_

#include <memory>
#include <string>
#include <utility>

#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/server.h"
#include "quire/status.h"
#include "transport/local/loopback_transport.h"

namespace quire {

class EmbeddedStore {
 public:
  /// Errors are those of kvserver::Server::Open.
  static StatusOr<std::unique_ptr<EmbeddedStore>> Open(const kvserver::ServerOptions& options);
  ~EmbeddedStore() { transport_->Close(); }
  EmbeddedStore(const EmbeddedStore&) = delete;
  EmbeddedStore& operator=(const EmbeddedStore&) = delete;

  std::shared_ptr<Transport> transport() const { return transport_; }
  /// Listens on a free port of 127.0.0.1 for gRPC, and by `listeners` for the data plane. The
  /// shared-memory socket gets a default path if `listeners` names none. Call it once. Errors are
  /// those of kvserver::NetworkServer::Start.
  [[nodiscard]] Status Listen(kvserver::ListenerOptions listeners);
  /// Address of the control channel; empty before Listen.
  std::string address() const { return network_ != nullptr ? network_->address() : ""; }
  kvserver::Server& server() { return *server_; }

 private:
  EmbeddedStore(const kvserver::ServerOptions& options, std::unique_ptr<kvserver::Server> server,
                std::shared_ptr<LoopbackTransport> transport)
      : options_(options), server_(std::move(server)), transport_(std::move(transport)) {}

  const kvserver::ServerOptions options_;
  std::unique_ptr<kvserver::Server> server_;
  std::shared_ptr<LoopbackTransport> transport_;
  std::unique_ptr<kvserver::NetworkServer> network_;  ///< Null until Listen.
};

}  // namespace quire

#endif  // QUIRE_KVSERVER_EMBEDDED_EMBEDDED_STORE_H_
