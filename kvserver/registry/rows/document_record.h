// SPDX-License-Identifier: Apache-2.0
//
// Values of the document registry: a document without its name (which is in the key), and the list
// of a chain's segments. Versioned and checksummed. Version 2 of a document's record appends a time
// to live to version 1. Version 3 appends state, failure, source and tags. A document is written in
// the oldest version that holds it.
#ifndef QUIRE_KVSERVER_REGISTRY_ROWS_DOCUMENT_RECORD_H_
#define QUIRE_KVSERVER_REGISTRY_ROWS_DOCUMENT_RECORD_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "quire/status.h"

namespace quire::kvserver {

inline constexpr size_t kContentHashBytes = 32;  ///< SHA-256.

[[nodiscard]] std::string EncodeDocument(const Document& document);
/// Decodes untrusted bytes safely. DATA_LOSS when they are not a document's, FAILED_PRECONDITION
/// for a newer version. The result carries `name`.
[[nodiscard]] StatusOr<Document> DecodeDocument(const DocumentName& name, std::string_view encoded);

[[nodiscard]] std::string EncodeSegmentKeys(const std::vector<SegmentKey>& keys);
[[nodiscard]] StatusOr<std::vector<SegmentKey>> DecodeSegmentKeys(std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_ROWS_DOCUMENT_RECORD_H_
