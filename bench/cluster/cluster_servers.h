// SPDX-License-Identifier: Apache-2.0
//
// ClusterServers: servers of one cluster in this process, each with a disk of its own, that answer
// on loopback sockets. They never change. One of them may be made slow for its clients.
// Thread-safety: as each method says.
#ifndef QUIRE_BENCH_CLUSTER_CLUSTER_SERVERS_H_
#define QUIRE_BENCH_CLUSTER_CLUSTER_SERVERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/kit/data_dir.h"
#include "cluster/membership/static_membership.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/cluster_connection.h"
#include "quire/document_router.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

/// Spec of the documents that are read: 4 MiB in one segment.
KvSpec ClusterSpec();
std::string ClusterDocument(uint32_t number);

class ClusterServers {
 public:
  /// Starts `servers` servers, and puts `documents` documents to the nearest `replicas` of each.
  static StatusOr<std::unique_ptr<ClusterServers>> Start(uint32_t servers, uint32_t documents,
                                                         uint32_t replicas);
  ~ClusterServers();

  /// A client of the nodes that have document `number`. Any thread.
  struct Reader {
    std::unique_ptr<ClusterConnection> connection;
    std::unique_ptr<Client> client;
  };
  StatusOr<Reader> ReaderOf(uint32_t number, bool hedge) const;
  /// From now on document `number` is hot: the nodes that it was put to all own it, one of them as
  /// its only replica. Before ReaderOf.
  void Heat(uint32_t number);
  /// Bytes of document `number` that each node has served so far. Any thread.
  StatusOr<std::vector<uint64_t>> BytesServed(uint32_t number) const;
  /// From now on answers of the node nearest to document `number` take `delay` longer, for clients
  /// of ReaderOf. No delay when it is 0. Any thread.
  void SlowDown(uint32_t number, Duration delay);

 private:
  struct Node {
    std::unique_ptr<cli::DataDir> directory;
    std::unique_ptr<cluster::StaticMembership> membership;
    std::unique_ptr<EmbeddedStore> store;
  };
  class SlowTransport;

  ClusterServers() = default;
  Status StartNode(uint32_t number);
  Status Put(uint32_t document, uint32_t replicas);
  /// Indices of nodes, nearest first.
  std::vector<uint32_t> Order(uint32_t document) const;

  cluster::ClusterView view_;
  std::vector<Node> nodes_;
  std::unique_ptr<std::atomic<int64_t>[]> delays_;  ///< Nanoseconds, by node.
  std::shared_ptr<DocumentRouter> router_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_CLUSTER_CLUSTER_SERVERS_H_
