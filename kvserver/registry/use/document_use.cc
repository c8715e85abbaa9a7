// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: statistics, the log of events, and their upkeep.
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {

DocumentRegistryImpl::~DocumentRegistryImpl() {
  // A failure costs the counts of the last minute, as a crash does.
  (void)statistics_.Flush(/*now=*/true);
}

Status DocumentRegistryImpl::LoadRows() {
  MutexLock lock(write_mutex_);
  QUIRE_RETURN_IF_ERROR(events_.Load());
  QUIRE_RETURN_IF_ERROR(statistics_.Load());
  return ForEachEntry(*metadata_, AllIngestsPrefix(), [&](const MetadataEntry& entry) {
    auto document = ParseIngestKey(entry.key);
    const auto id = NumberOfHex(entry.value);
    if (document && id) ingests_.Add(*id, *std::move(document));
  });
}

StatusOr<DocumentEvents> DocumentRegistryImpl::Watch(const EventLog::Query& query,
                                                     TimePoint deadline,
                                                     const std::function<bool()>& stop) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(query.tenant));
  if (!query.collection.empty()) QUIRE_RETURN_IF_ERROR(CheckCollection(query.collection));
  return events_.Watch(query, deadline, stop);
}

void DocumentRegistryImpl::NoteOpened(std::string_view tenant, const DocumentName& name,
                                      uint64_t tokens) {
  statistics_.Add(tenant, name, {.questions = 1, .tokens_saved = tokens});
}

void DocumentRegistryImpl::NoteServed(std::string_view tenant, const DocumentName& name,
                                      uint64_t bytes) {
  statistics_.Add(tenant, name, {.bytes_served = bytes});
}

void DocumentRegistryImpl::NoteReuse(std::string_view tenant, const SegmentKey& tip,
                                     uint64_t tokens) {
  const auto references = metadata_->Scan(ReferencesPrefix(tenant, tip), "", 1);
  if (!references.ok() || references->empty()) return;
  const auto name = ParseDocumentName(references->front().key);
  if (name) statistics_.Add(tenant, *name, {.hits = 1, .tokens_saved = tokens});
}

Status DocumentRegistryImpl::KeepUp(bool is_member) {
  Status kept;
  {
    MutexLock lock(write_mutex_);
    kept.Update(events_.Trim().status());
    kept.Update(statistics_.Flush(/*now=*/false));
  }
  if (!is_member) return kept;
  // Both are tried again while the agreements are away.
  for (const Status& status : {IntroduceSome(), FollowSettings()}) {
    if (!IsUnavailable(status)) kept.Update(status);
  }
  return kept;
}

}  // namespace quire::kvserver
