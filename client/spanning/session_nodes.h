// SPDX-License-Identifier: Apache-2.0
//
// SessionNodes: the nodes that a session's contexts lie on, as SpanningSession sees them.
// ClusterClient implements it. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_CLIENT_SPANNING_SESSION_NODES_H_
#define QUIRE_CLIENT_SPANNING_SESSION_NODES_H_

#include <string>

#include "quire/client.h"
#include "quire/contexts.h"
#include "quire/status.h"

namespace quire::internal {

class SessionNodes {
 public:
  struct Node {
    std::string address;
    Client* client = nullptr;  ///< Outlives the session.
  };
  virtual ~SessionNodes() = default;
  /// The node that reads the context now. NOT_FOUND when no node has it; UNAVAILABLE when one that
  /// may have it does not answer.
  virtual StatusOr<Node> NodeOf(const ContextRef& context) = 0;
  /// Takes in how a call to the node ended, so that NodeOf names another one after its failure.
  virtual void NoteEnd(const std::string& address, const Status& status) = 0;
  /// The same of a call about `context`, which the node may lack.
  virtual void NoteEndOf(const ContextRef& context, const std::string& address,
                         const Status& status) = 0;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_SESSION_NODES_H_
