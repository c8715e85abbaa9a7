// SPDX-License-Identifier: Apache-2.0
//
// Server: a whole Quire server without a network: page store, document registry, contexts and
// sessions behind one CallHandler. A daemon gives the handler to GrpcServer, an embedding program
// to a LoopbackTransport.
//
//   QUIRE_ASSIGN_OR_RETURN(auto server, Server::Open({.data_dir = dir}));
//   LoopbackTransport transport(server->handler(), {});
//
// Thread-safety: the handler may be called concurrently. Ownership: transports that call the
// handler are closed before the server is destroyed.
#ifndef QUIRE_KVSERVER_SERVICE_SERVER_H_
#define QUIRE_KVSERVER_SERVICE_SERVER_H_

#include <memory>
#include <optional>
#include <string>

#include "common/base/memory/shared_memory.h"
#include "common/base/observe/metrics.h"
#include "kvserver/service/server_options.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::kvserver {

class ContextResolver;
class DataPlane;
class DocumentRegistry;
class SessionManager;
class SlowCalls;

class Server {
 public:
  /// Opens the data directory and recovers its contents. Errors: INVALID_ARGUMENT for options;
  /// those of PageStore::Open, naming the path and the remedy.
  static StatusOr<std::unique_ptr<Server>> Open(const ServerOptions& options);
  /// As Open, over an open store. Ignores the store options.
  static StatusOr<std::unique_ptr<Server>> Over(std::unique_ptr<PageStore> store,
                                                const ServerOptions& options);
  ~Server();

  CallHandler* handler();
  /// Connections besides those of the handler's transports. Empty until a listener is added.
  DataPlane& data_plane() const;
  void VisitMetrics(MetricsVisitor& visit) const;
  /// See Replicator::CatchUp. Call it before the server joins its cluster. OK when names of
  /// documents are the server's own.
  [[nodiscard]] Status CatchUpReplicas();
  /// Begins to follow the agreed names, and to copy and release documents as the cluster's members
  /// call for.
  void StartReplication();
  /// Ends it for good. Call it before the server leaves its cluster, since a node that left owns
  /// nothing.
  void StopReplication();
  /// Begins the upkeep of every second now: what expired goes. For owners of a clock that jumps.
  void KeepUpSoon();
  /// Parts that people look at. Each belongs to the server.
  DocumentRegistry& registry() const;
  SessionManager& sessions() const;
  ContextResolver& resolver() const;
  const SlowCalls& slow_calls() const;
  /// See PageStore::shared_memory.
  std::optional<SharedMemoryView> shared_memory() const;
  /// See PageStore::ssd_mode.
  std::string ssd_mode() const;
  /// See PageStore::dram_mode.
  std::string dram_mode() const;

 private:
  struct Parts;
  /// `*own_health` is the board of `options`, unless the caller has one. Taken on success.
  static StatusOr<std::unique_ptr<Server>> Make(std::unique_ptr<PageStore> store,
                                                const ServerOptions& options,
                                                std::unique_ptr<Health>* own_health);
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_SERVER_H_
