// SPDX-License-Identifier: Apache-2.0
//
// Filters that commands build, and listings of all pages.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_QUERY_H_
#define QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_QUERY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "quire/client.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::cli {

/// `text` as a quoted value of a filter.
std::string FilterValue(std::string_view text);

/// The documents of all pages in order, `limit` at most.
StatusOr<std::vector<Document>> ReadDocuments(
    ListOptions options, Client& client, uint64_t limit = std::numeric_limits<uint64_t>::max());

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_QUERY_H_
