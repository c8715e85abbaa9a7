// SPDX-License-Identifier: Apache-2.0
//
// ClusterConnection: transports to whichever node of a cluster has some documents. Calls go to one
// node while it answers. After its failure the next call goes to another node with the documents.
// Sessions and contexts of the first node are NOT_FOUND on the other one: open them again.
//
//   QUIRE_ASSIGN_OR_RETURN(auto connection,
//                          ClusterConnection::Open({.router = router,
//                                                   .documents = {{.name = "handbook.md"}}}));
//   QUIRE_ASSIGN_OR_RETURN(auto data, connection->ConnectData({}));
//   Client::Create({.transport = connection->control(), .data_transport = data.transport});
//
// Failures are UNAVAILABLE without an answer, and DEADLINE_EXCEEDED. Reads, and calls that open a
// session or a context, are made at the other node at once. Callers repeat other calls themselves.
//
// Hedging: a read of the control channel that is slower than most is asked of a second node, too
// (Fetch, Lookup, Stat, ReadTokens, GetDocument, GetExtra). The first answer counts. A second node
// may lag behind by the changes of a moment. Without a second node nothing is hedged.
//
// Hot documents: a document that is read much has more owners for a while. A connection goes to one
// of them by chance. Fetch and ReadTokens go to all of them, to the less busy of two drawn by
// chance.
//
// Thread-safety: all methods may be called concurrently. Ownership: transports outlive this object.
#ifndef QUIRE_CLUSTER_CONNECTION_H_
#define QUIRE_CLUSTER_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/document_router.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

class ClusterConnection {
 public:
  struct Options {
    std::shared_ptr<DocumentRouter> router = nullptr;
    std::vector<DocumentName> documents = {};  ///< At least one.
    bool hedge_reads = true;
    Clock* clock = nullptr;  ///< SystemClock() when null; outlives the transports.
  };
  /// Finds a node that has all of the documents. Errors: those of DocumentRouter::FindHolder.
  static StatusOr<std::unique_ptr<ClusterConnection>> Open(Options options);
  ~ClusterConnection();

  /// For Client::Options::transport.
  std::shared_ptr<Transport> control() const;
  /// Opens a connection for recalls to the node that control() calls, as quire::ConnectData does.
  /// It is made anew whenever the calls go to another node. DataOptions::control_address is the
  /// node's.
  StatusOr<DataConnection> ConnectData(
      const DataOptions& options, std::function<void(const DataReport&)> on_other_way = {}) const;

  struct Counters {
    uint64_t node_changes = 0;  ///< Times that the calls went to another node.
    uint64_t calls_failed = 0;  ///< Calls that the node did not answer, or not in time.
    uint64_t reads = 0;         ///< Reads that may be hedged.
    uint64_t hedged = 0;        ///< Reads that a second node was asked for.
    uint64_t hedges_won = 0;    ///< Hedged reads that the second node answered first.
    uint64_t spread = 0;        ///< Reads that another owner of a hot document answered.
  };
  Counters counters() const;

 private:
  class Impl;
  explicit ClusterConnection(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace quire

#endif  // QUIRE_CLUSTER_CONNECTION_H_
