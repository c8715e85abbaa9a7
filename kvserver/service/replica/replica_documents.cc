// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/replica/replica_documents.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kNamesOfAPage = 256;

}  // namespace

StatusOr<cluster::LocalNames> ReplicaDocuments::HeldNames(std::string_view after) {
  QUIRE_ASSIGN_OR_RETURN(auto page, registry_.HeldNames(after, kNamesOfAPage));
  return cluster::LocalNames{.names = std::move(page.names), .next = std::move(page.next)};
}

Status ReplicaDocuments::Align(std::string_view tenant, const DocumentName& name,
                               const AgreedName& agreed) {
  return registry_.Align(tenant, name, agreed).status();
}

cluster::Held ReplicaDocuments::StateOf(std::string_view tenant, const Document& document) {
  const auto held = registry_.Get(tenant, document.name);
  if (!held.ok() || held->chain_tip != document.chain_tip) return cluster::Held::kNot;
  return held->segments_lost > 0 ? cluster::Held::kDamaged : cluster::Held::kWhole;
}

Status ReplicaDocuments::Adopt(std::string_view tenant, const DocumentName& name,
                               const AgreedName& agreed) {
  return registry_.Adopt(tenant, name, agreed);
}

Status ReplicaDocuments::PutExtras(std::string_view tenant, const DocumentName& name,
                                   const std::vector<cluster::ExtraCopy>& extras) {
  for (const auto& [extra, bytes, segments] : extras) {
    const Status put =
        registry_.PutExtra(tenant, name, extra.name, extra.version, bytes, segments).status();
    // A newer one stays.
    if (!put.ok() && put.code() != StatusCode::kFailedPrecondition) return put;
  }
  return OkStatus();
}

Status ReplicaDocuments::Release(std::string_view tenant, const DocumentName& name) {
  return registry_.Release(tenant, name);
}

}  // namespace quire::kvserver
