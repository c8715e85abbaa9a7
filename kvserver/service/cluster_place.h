// SPDX-License-Identifier: Apache-2.0
//
// ClusterPlace: a server's place in a cluster, and the rule which documents it takes. A server
// answers for all that it holds. It takes a new document only if the placement of its view makes it
// an owner; otherwise it names the nearest one. Thread-safety: a value; CheckTakes may be called
// concurrently. Ownership: what it points to outlives the server.
#ifndef QUIRE_KVSERVER_SERVICE_CLUSTER_PLACE_H_
#define QUIRE_KVSERVER_SERVICE_CLUSTER_PLACE_H_

#include <functional>
#include <string>
#include <string_view>

#include "cluster/directory/directory_feed.h"
#include "cluster/hot/hot_agreement.h"
#include "cluster/membership/membership.h"
#include "cluster/replica/peer_nodes.h"
#include "common/documents/collection_agreement.h"
#include "common/documents/document_agreement.h"
#include "kvserver/store/metadata/tenant_salts.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::kvserver {

struct ClusterPlace {
  const cluster::Membership* membership = nullptr;  ///< Null: in no cluster.
  std::string node = {};                            ///< The server's name there.
  /// OK while the server is a member. Empty: always.
  std::function<Status()> standing = {};
  DocumentAgreement* documents = nullptr;      ///< Null: names of documents are the server's own.
  CollectionAgreement* collections = nullptr;  ///< Null: settings of collections are its own.
  AgreeOnSalts agree_on_salts = {};            ///< Empty: salts of tenants are the server's own.
  cluster::PeerNodes* peers = nullptr;         ///< Null: the server keeps no replicas.
  cluster::DirectoryFeed* feed = nullptr;      ///< Changes of `documents`, for replicas.
  cluster::HotAgreement* hot = nullptr;        ///< Null: no document gets extra copies.

  bool keeps_replicas() const { return peers != nullptr; }
};

/// Checks that the server takes a document that it does not hold yet. FAILED_PRECONDITION naming
/// the owner and the epoch of the view; UNAVAILABLE while the server is no member, or no node takes
/// documents.
[[nodiscard]] Status CheckTakes(const ClusterPlace& place, std::string_view tenant,
                                const DocumentName& name);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_CLUSTER_PLACE_H_
