// SPDX-License-Identifier: Apache-2.0
//
// Documents in replies of the Registry, checked before use. Pure functions; a wrong reply is
// DATA_LOSS.
#ifndef QUIRE_CLIENT_DOCUMENT_REPLY_H_
#define QUIRE_CLIENT_DOCUMENT_REPLY_H_

#include <string_view>

#include "quire/documents.h"
#include "quire/status.h"
#include "quire/v1/registry.pb.h"

namespace quire::internal {

/// The document in a reply of `method`, which has a version.
[[nodiscard]] StatusOr<Document> DocumentFromReply(std::string_view method,
                                                   const v1::Document& proto);
/// The same for a reply about the document `asked`, at any version when 0 was asked.
[[nodiscard]] StatusOr<Document> DocumentFromReply(std::string_view method,
                                                   const DocumentName& asked,
                                                   const v1::Document& proto);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_DOCUMENT_REPLY_H_
