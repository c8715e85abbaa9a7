// SPDX-License-Identifier: Apache-2.0
//
// Changes of an agreed name, as DocumentAgreement promises them. Each takes a name and returns the
// name after the change; the revision is left to the caller. Pure functions.
#ifndef QUIRE_COMMON_DOCUMENTS_AGREED_CHANGES_H_
#define QUIRE_COMMON_DOCUMENTS_AGREED_CHANGES_H_

#include <cstdint>
#include <span>

#include "common/documents/document_agreement.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

/// True when both names say the same. Revisions are not compared.
[[nodiscard]] bool SaysTheSame(const AgreedName& one, const AgreedName& other);

[[nodiscard]] AgreedName WithReserved(AgreedName name);
/// INVALID_ARGUMENT for version 0.
[[nodiscard]] StatusOr<AgreedName> WithPublished(AgreedName name, const Document& document,
                                                 bool keep_latest);
[[nodiscard]] StatusOr<AgreedName> WithAmended(AgreedName name, const Document& document);
[[nodiscard]] StatusOr<AgreedName> WithLatest(AgreedName name, const DocumentName& latest);
[[nodiscard]] AgreedName Without(AgreedName name, std::span<const uint64_t> versions);

/// Settings of a collection after a change. A codec of a server's default is empty.
[[nodiscard]] Collection WithChange(Collection collection, const CollectionChange& change);

/// Sets `is_latest` of every version. For names that were read from outside.
void MarkLatest(AgreedName* name);

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_AGREED_CHANGES_H_
