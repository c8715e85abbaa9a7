// SPDX-License-Identifier: Apache-2.0
//
// DocumentRouter: finds the node of a cluster that a document lies on, or belongs to. It asks any
// node for the members, computes the placement as the nodes do, and asks the nearest nodes first.
// The view is kept for a while. A node that does not answer makes it be read anew.
//
//   QUIRE_ASSIGN_OR_RETURN(auto router, DocumentRouter::Create({.servers = {"10.0.0.1:7410"}}));
//   QUIRE_ASSIGN_OR_RETURN(std::string address, router->FindHolder({.name = "handbook.md"}));
//
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_DOCUMENT_ROUTER_H_
#define QUIRE_DOCUMENT_ROUTER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

class DocumentRouter {
 public:
  using Connect = std::function<StatusOr<std::shared_ptr<Transport>>(const std::string& address)>;
  struct Options {
    std::vector<std::string> servers = {};  ///< Addresses of some nodes; any of them tells all.
    std::string tenant = "default";
    Connect connect = {};  ///< ConnectGrpc with `connect_options` when empty.
    ConnectOptions connect_options = {};
    Duration node_timeout = std::chrono::seconds(2);  ///< Limit of one node's answer.
    Duration view_age = std::chrono::seconds(5);      ///< Longest use of a view.
    Clock* clock = nullptr;                           ///< SystemClock() when null.
  };
  /// Connects at the first call. INVALID_ARGUMENT without servers.
  static StatusOr<std::unique_ptr<DocumentRouter>> Create(Options options);
  ~DocumentRouter();

  /// Address of the nearest node that has the document. NOT_FOUND when no node has it, by a current
  /// view. UNAVAILABLE when a nearer node does not answer, left or is lost, or no server tells the
  /// members. FAILED_PRECONDITION when the servers are of another cluster than before.
  StatusOr<std::string> FindHolder(const DocumentName& name);
  /// Address of the node to put the document to: the nearest one that has a version of it, or its
  /// owner. UNAVAILABLE when that one or a nearer one does not answer, left or is lost, or no node
  /// takes documents. FAILED_PRECONDITION as from FindHolder.
  StatusOr<std::string> FindPlace(const DocumentName& name);

 private:
  class Impl;
  explicit DocumentRouter(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace quire

#endif  // QUIRE_DOCUMENT_ROUTER_H_
