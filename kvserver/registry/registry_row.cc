// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/registry_row.h"

#include "kvserver/registry/collection_settings.h"
#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_record.h"

namespace quire::kvserver {

Status CheckRegistryRow(std::string_view key, std::string_view value) {
  if (const auto document = ParseDocumentKey(key)) {
    return Annotate(DecodeDocument(document->name, value).status(), "document ",
                    Describe(document->name), " of tenant ", document->tenant,
                    " (delete it and put it again)");
  }
  if (const auto document = ParseChainKey(key)) {
    return Annotate(DecodeSegmentKeys(value).status(), "the chain of document ",
                    Describe(document->name), " of tenant ", document->tenant,
                    " (delete it and put it again)");
  }
  if (const auto owner = ParseCollectionKey(key)) {
    return Annotate(DecodeCollection(owner->collection, value).status(), "collection ",
                    owner->collection, " of tenant ", owner->tenant, " (set it again)");
  }
  return OkStatus();
}

}  // namespace quire::kvserver
