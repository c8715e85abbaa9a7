// SPDX-License-Identifier: Apache-2.0
//
// ChangingAgreement: a DocumentAgreement whose changes are pure functions of one name. A derived
// class says how a name is read and changed as a whole. Thread-safety and errors as the seam's.
#ifndef QUIRE_COMMON_DOCUMENTS_CHANGING_AGREEMENT_H_
#define QUIRE_COMMON_DOCUMENTS_CHANGING_AGREEMENT_H_

#include <functional>
#include <span>
#include <string_view>

#include "common/documents/document_agreement.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

class ChangingAgreement : public DocumentAgreement {
 public:
  StatusOr<AgreedName> Reserve(std::string_view tenant, const DocumentName& name) final;
  StatusOr<AgreedName> Publish(std::string_view tenant, const Document& document,
                               bool keep_latest) final;
  StatusOr<AgreedName> Amend(std::string_view tenant, const Document& document) final;
  StatusOr<AgreedName> MoveLatest(std::string_view tenant, const DocumentName& name) final;
  StatusOr<AgreedName> Remove(std::string_view tenant, const DocumentName& name,
                              std::span<const uint64_t> versions) final;

 protected:
  using Edit = std::function<StatusOr<AgreedName>(const AgreedName&)>;
  /// Replaces the name by `edit(name)`, which may be called again for a newer one. Its error
  /// changes nothing. Returns the name after the change.
  virtual StatusOr<AgreedName> Change(std::string_view tenant, const DocumentName& name,
                                      const Edit& edit) = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_CHANGING_AGREEMENT_H_
