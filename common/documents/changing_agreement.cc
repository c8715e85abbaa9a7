// SPDX-License-Identifier: Apache-2.0
#include "common/documents/changing_agreement.h"

#include "common/documents/agreed_changes.h"

namespace quire {

StatusOr<AgreedName> ChangingAgreement::Reserve(std::string_view tenant, const DocumentName& name) {
  return Change(tenant, name, [](const AgreedName& agreed) -> StatusOr<AgreedName> {
    return WithReserved(agreed);
  });
}

StatusOr<AgreedName> ChangingAgreement::Publish(std::string_view tenant, const Document& document,
                                                bool keep_latest) {
  return Change(tenant, document.name, [&](const AgreedName& agreed) {
    return WithPublished(agreed, document, keep_latest);
  });
}

StatusOr<AgreedName> ChangingAgreement::Amend(std::string_view tenant, const Document& document) {
  return Change(tenant, document.name,
                [&](const AgreedName& agreed) { return WithAmended(agreed, document); });
}

StatusOr<AgreedName> ChangingAgreement::MoveLatest(std::string_view tenant,
                                                   const DocumentName& name) {
  return Change(tenant, name, [&](const AgreedName& agreed) { return WithLatest(agreed, name); });
}

StatusOr<AgreedName> ChangingAgreement::Remove(std::string_view tenant, const DocumentName& name,
                                               std::span<const uint64_t> versions) {
  return Change(tenant, name, [&](const AgreedName& agreed) -> StatusOr<AgreedName> {
    return Without(agreed, versions);
  });
}

}  // namespace quire
