// SPDX-License-Identifier: Apache-2.0
//
// Names of the states of a document, as filters, JSON and people know them. Pure functions.
#ifndef QUIRE_COMMON_DOCUMENTS_DOCUMENT_STATE_H_
#define QUIRE_COMMON_DOCUMENTS_DOCUMENT_STATE_H_

#include <optional>
#include <string_view>

#include "quire/documents.h"

namespace quire {

/// "ready", "ingesting", "failed" or "expired".
std::string_view StateName(DocumentState state);
/// The state that is called so.
std::optional<DocumentState> StateNamed(std::string_view name);

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_DOCUMENT_STATE_H_
