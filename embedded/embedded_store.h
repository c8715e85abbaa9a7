// SPDX-License-Identifier: Apache-2.0
//
// EmbeddedStore: a Quire server inside the caller's process, reached like any other through a
// Transport. The way to try Quire, and what the demo and the tests run on.
//
//   QUIRE_ASSIGN_OR_RETURN(auto store, EmbeddedStore::Open({.data_dir = dir}));
//   QUIRE_ASSIGN_OR_RETURN(auto client, Client::Create({.transport = store->transport()}));
//
// Ownership: owns the server. Transports handed out stay valid after the store is gone and answer
// UNAVAILABLE then. Thread-safety: everything may be used concurrently.
#ifndef QUIRE_EMBEDDED_EMBEDDED_STORE_H_
#define QUIRE_EMBEDDED_EMBEDDED_STORE_H_

#include <memory>

#include "common/base/status.h"
#include "common/transport/loopback_transport.h"
#include "kvserver/service/server.h"

namespace quire {

class EmbeddedStore {
 public:
  /// Errors are those of kvserver::Server::Open.
  static StatusOr<std::unique_ptr<EmbeddedStore>> Open(const kvserver::ServerOptions& options);
  ~EmbeddedStore() { transport_->Close(); }
  EmbeddedStore(const EmbeddedStore&) = delete;
  EmbeddedStore& operator=(const EmbeddedStore&) = delete;

  std::shared_ptr<Transport> transport() const { return transport_; }
  kvserver::Server& server() { return *server_; }

 private:
  EmbeddedStore(std::unique_ptr<kvserver::Server> server,
                std::shared_ptr<LoopbackTransport> transport)
      : server_(std::move(server)), transport_(std::move(transport)) {}

  std::unique_ptr<kvserver::Server> server_;
  std::shared_ptr<LoopbackTransport> transport_;
};

}  // namespace quire

#endif  // QUIRE_EMBEDDED_EMBEDDED_STORE_H_
