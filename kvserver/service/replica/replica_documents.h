// SPDX-License-Identifier: Apache-2.0
//
// ReplicaDocuments: LocalDocuments over a DocumentRegistry. Ownership: the registry outlives it.
#ifndef QUIRE_KVSERVER_SERVICE_REPLICA_REPLICA_DOCUMENTS_H_
#define QUIRE_KVSERVER_SERVICE_REPLICA_REPLICA_DOCUMENTS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/replica/local_documents.h"
#include "kvserver/registry/document_registry.h"

namespace quire::kvserver {

class ReplicaDocuments final : public cluster::LocalDocuments {
 public:
  ReplicaDocuments(DocumentRegistry* registry, std::vector<std::string> tenants)
      : registry_(*registry), tenants_(std::move(tenants)) {}

  std::vector<std::string> Tenants() const override { return tenants_; }
  StatusOr<cluster::LocalNames> HeldNames(std::string_view after) override;
  Status Align(std::string_view tenant, const DocumentName& name,
               const AgreedName& agreed) override;
  cluster::Held StateOf(std::string_view tenant, const Document& document) override;
  Status Adopt(std::string_view tenant, const DocumentName& name,
               const AgreedName& agreed) override;
  Status PutExtras(std::string_view tenant, const DocumentName& name,
                   const std::vector<cluster::ExtraCopy>& extras) override;
  Status Release(std::string_view tenant, const DocumentName& name) override;

 private:
  DocumentRegistry& registry_;
  const std::vector<std::string> tenants_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_REPLICA_REPLICA_DOCUMENTS_H_
