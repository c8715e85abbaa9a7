// SPDX-License-Identifier: Apache-2.0
//
// LocalDocuments: the seam between replication and the documents of this node. It changes only what
// this node has, never what is agreed. Implementation: kvserver/service/replica. Thread-safety: all
// methods may be called concurrently. Errors: as DocumentRegistry.
#ifndef QUIRE_CLUSTER_REPLICA_LOCAL_DOCUMENTS_H_
#define QUIRE_CLUSTER_REPLICA_LOCAL_DOCUMENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/replica/peer_nodes.h"
#include "common/documents/document_agreement.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::cluster {

/// A page of names that this node has versions of.
struct LocalNames {
  std::vector<std::pair<std::string, DocumentName>> names;  ///< Tenant and name, version 0.
  std::string next;  ///< Argument for the next page; empty after the last one.
};

class LocalDocuments {
 public:
  virtual ~LocalDocuments() = default;

  virtual std::vector<std::string> Tenants() const = 0;
  /// Names of all tenants; `after` is empty for the first page.
  virtual StatusOr<LocalNames> HeldNames(std::string_view after) = 0;

  /// Makes what is here of a name as agreed: tags, time to live, alias. Versions that are not
  /// agreed go.
  [[nodiscard]] virtual Status Align(std::string_view tenant, const DocumentName& name,
                                     const AgreedName& agreed) = 0;
  virtual Held StateOf(std::string_view tenant, const Document& document) = 0;
  /// Names a chain that is here as the agreed version that `name` says.
  [[nodiscard]] virtual Status Adopt(std::string_view tenant, const DocumentName& name,
                                     const AgreedName& agreed) = 0;
  /// Keeps extras of a version that is here, with the segments that they name; newer ones of the
  /// same names stay.
  [[nodiscard]] virtual Status PutExtras(std::string_view tenant, const DocumentName& name,
                                         const std::vector<ExtraCopy>& extras) = 0;
  /// Forgets one version here, and its segments where no other document names them.
  [[nodiscard]] virtual Status Release(std::string_view tenant, const DocumentName& name) = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_LOCAL_DOCUMENTS_H_
