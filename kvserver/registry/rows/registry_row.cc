// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/rows/registry_row.h"

#include "kvserver/registry/collections/collection_settings.h"
#include "kvserver/registry/events/event_record.h"
#include "kvserver/registry/extras/extra_record.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"
#include "kvserver/registry/rows/latest_version.h"

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
  if (const auto extra = ParseExtraName(key)) {
    const Status status = key.starts_with("exb") ? DecodeExtraBytes(*extra, value).status()
                                                 : DecodeExtra(*extra, value).status();
    return Annotate(status, "the extra of a document");
  }
  if (const auto event = ParseEventKey(key)) {
    return Annotate(DecodeEvent(event->position, value).status(), "the log of tenant ",
                    event->tenant);
  }
  if (const auto named = ParseLatestKey(key)) {
    return Annotate(DecodeLatest(named->name, value).status(), "tenant ", named->tenant);
  }
  return OkStatus();
}

}  // namespace quire::kvserver
