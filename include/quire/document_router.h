// SPDX-License-Identifier: Apache-2.0
//
// DocumentRouter: finds the node of a cluster that a document lies on, or belongs to. It asks any
// node for the members, computes the placement as the nodes do, and asks the nearest nodes first.
// The view is kept for a while. A node that does not answer makes it be read anew.
//
// Nodes agree on the versions of a document, so the answer of any node that has it stands. Absence
// needs a current view and the answer of every member, twice, since documents move.
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
#include <span>
#include <string>
#include <vector>

#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

/// Order in which DocumentRouter asks the nodes, other than by distance, and its time.
struct HolderSearch {
  std::string first = {};              ///< Address that is asked before all others.
  std::vector<std::string> last = {};  ///< Addresses that are asked after all others, in order.
  Duration timeout = Duration::max();  ///< Limit of the search; nodes not asked by then are silent.
};

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

  /// Address of the nearest node that has all of the documents. Where the first one is hot, one of
  /// its owners by chance. Errors:
  /// - NOT_FOUND: no node has one of them, by a current view and the answer of every member.
  /// - UNAVAILABLE: a member that may have them does not answer, left or is lost; or no server
  ///   tells the members, or none tells them by a current view.
  /// - INVALID_ARGUMENT: all are there, and no node has all of them.
  /// - FAILED_PRECONDITION: a node knows a later version, which no node has; or the servers are of
  ///   another cluster than before.
  StatusOr<std::string> FindHolder(std::span<const DocumentName> names,
                                   const HolderSearch& search = {});
  StatusOr<std::string> FindHolder(const DocumentName& name) { return FindHolder({&name, 1}); }
  /// Addresses of the nodes that own all of the documents, while one of them is hot: it is read so
  /// much that reads should spread over its owners. Empty otherwise. A node may be about to copy
  /// them still. Errors as FindPlace.
  StatusOr<std::vector<std::string>> FindHotOwners(std::span<const DocumentName> names);
  /// Address of the node to put the document to: the nearest owner that is up and answers. When one
  /// does not answer at once, the next one is asked beside it, and the first answer counts.
  /// UNAVAILABLE when no owner answers, or no node takes documents. FAILED_PRECONDITION when the
  /// servers are of another cluster than before.
  StatusOr<std::string> FindPlace(const DocumentName& name);
  /// Addresses of the nodes that answer for what they have, by the view. UNAVAILABLE when no server
  /// tells the members. FAILED_PRECONDITION when the servers are of another cluster than before.
  StatusOr<std::vector<std::string>> ServingNodes();
  /// The connection to a node, which the router keeps.
  StatusOr<std::shared_ptr<Transport>> ConnectTo(const std::string& address);

 private:
  class Impl;
  explicit DocumentRouter(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace quire

#endif  // QUIRE_DOCUMENT_ROUTER_H_
