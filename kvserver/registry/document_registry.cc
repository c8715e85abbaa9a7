// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/document_registry.h"

#include <optional>
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {
StatusOr<std::unique_ptr<DocumentRegistry>> DocumentRegistry::Open(
    PageStore* store, MetadataStore* metadata, Clock* clock, const CodecParams& default_codec,
    Duration ingest_lease, DocumentAgreement* agreement, CollectionAgreement* settings) {
  auto registry = std::make_unique<DocumentRegistryImpl>(store, metadata, clock, default_codec,
                                                         ingest_lease, agreement, settings);
  QUIRE_RETURN_IF_ERROR(registry->Upgrade());
  QUIRE_RETURN_IF_ERROR(registry->LoadRows());
  QUIRE_RETURN_IF_ERROR(registry->RestoreNames());
  QUIRE_RETURN_IF_ERROR(registry->RemoveOrphans().status());
  QUIRE_RETURN_IF_ERROR(registry->BuildIndex());
  QUIRE_RETURN_IF_ERROR(registry->LoadPins());
  return std::unique_ptr<DocumentRegistry>(std::move(registry));
}

Status DocumentRegistryImpl::RestoreNames() {
  PageStore::SegmentNames names;
  QUIRE_RETURN_IF_ERROR(
      ForEachEntry(*metadata_, AllReferencesPrefix(), [&](const MetadataEntry& entry) {
        if (const auto segment = SegmentOfReference(entry.key)) ++names[*segment];
      }));
  store_->RestoreNames(names);
  return OkStatus();
}

StatusOr<std::vector<DocumentName>> DocumentRegistryImpl::Versions(std::string_view tenant,
                                                                   const DocumentName& name) {
  const std::string prefix = VersionsPrefix(tenant, name);
  std::vector<DocumentName> versions;
  std::string after;
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                           metadata_->Scan(prefix, after, MetadataStore::kMaxScanEntries));
    for (const MetadataEntry& entry : entries) {
      if (auto parsed = ParseDocumentName(entry.key)) versions.push_back(*std::move(parsed));
    }
    if (entries.size() < MetadataStore::kMaxScanEntries) return versions;
    after = entries.back().key;
  }
}

StatusOr<Document> DocumentRegistryImpl::ReadDocument(std::string_view tenant,
                                                      const DocumentName& name) {
  const StatusOr<std::string> value = metadata_->Get(DocumentKey(tenant, name));
  if (IsNotFound(value.status())) return NoSuchDocument(name);
  QUIRE_RETURN_IF_ERROR(value.status());
  QUIRE_ASSIGN_OR_RETURN(Document document, DecodeDocument(name, *value));
  QUIRE_ASSIGN_OR_RETURN(document.expires_unix_micros, ExpiryOfDocument(tenant, document));
  return document;
}

StatusOr<Document> DocumentRegistryImpl::ReadReady(std::string_view tenant,
                                                   const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(Document document, ReadDocument(tenant, name));
  if (document.state != DocumentState::kReady || HasExpired(document)) return NoSuchDocument(name);
  return document;
}

StatusOr<Document> DocumentRegistryImpl::Get(std::string_view tenant, const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion row, ReadLatest(tenant, name));
  DocumentName asked = name;
  if (name.version == 0) asked.version = row.latest;
  StatusOr<Document> document = ReadReady(tenant, asked);
  if (name.version == 0 && IsNotFound(document.status())) {
    QUIRE_RETURN_IF_ERROR(CheckHeld(tenant, asked));
    // The latest one has just expired.
    QUIRE_ASSIGN_OR_RETURN(auto highest, HighestReady(tenant, name));
    if (!highest) return NoSuchDocument(name);
    document = *std::move(highest);
  }
  QUIRE_RETURN_IF_ERROR(document.status());
  Complete(tenant, row.latest, &*document);
  return document;
}

Status DocumentRegistryImpl::CheckHeld(std::string_view tenant, const DocumentName& latest) {
  if (agreement_ == nullptr || latest.version == 0) return OkStatus();
  const StatusOr<Document> row = ReadDocument(tenant, latest);
  if (row.ok() && row->state == DocumentState::kReady) return OkStatus();
  return FailedPrecondition("the latest version of ", latest.collection, "/", latest.name, " is ",
                            latest.version, ", which lies on another node");
}

void DocumentRegistryImpl::Complete(std::string_view tenant, uint64_t latest, Document* document) {
  document->is_latest = document->name.version == latest;
  document->pinned = IsPinned(tenant, document->name);
  document->statistics = statistics_.Get(tenant, document->name);
  if (document->state != DocumentState::kReady) return;
  document->segments_lost = store_->LostSegments(tenant, document->chain_tip);
}

StatusOr<Document> DocumentRegistryImpl::Completed(std::string_view tenant, Document document) {
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion row, ReadLatest(tenant, document.name));
  Complete(tenant, row.latest, &document);
  return document;
}

bool DocumentRegistryImpl::IsPinned(std::string_view tenant, const DocumentName& name) const {
  return pinned_names_.Has(DocumentKey(tenant, name));
}

Status DocumentRegistryImpl::CheckUnreferenced(std::string_view tenant, const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> references,
                         metadata_->Scan(ReferencesPrefix(tenant, key), "", 1));
  if (references.empty()) return OkStatus();
  const auto name = ParseDocumentName(references.front().key);
  return FailedPrecondition("segment ", key.Hex(), " belongs to document ",
                            name ? Describe(*name) : "(unreadable name)",
                            "; delete the document instead");
}

Status DocumentRegistryImpl::DeleteSegment(std::string_view tenant, const SegmentKey& key) {
  MutexLock lock(write_mutex_);
  QUIRE_RETURN_IF_ERROR(CheckUnreferenced(tenant, key));
  const uint64_t incarnation = store_->Incarnations({&key, 1}).front();
  QUIRE_RETURN_IF_ERROR(store_->DeleteSegment(tenant, key));
  if (store_->Incarnations({&key, 1}).front() != incarnation) return OkStatus();
  // The segment is held: it is deleted with its last hold, or after a restart.
  MetadataBatch batch;
  batch.Put(PendingDeleteKey(tenant, key), EncodePendingDelete(incarnation));
  orphans_pending_.fetch_add(1, std::memory_order_relaxed);
  return metadata_->Apply(batch);
}

void DocumentRegistryImpl::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("documents_registered", "Documents registered.", registered_.Get());
  visit.Counter("documents_deleted", "Documents deleted.", deleted_.Get());
  visit.Counter("documents_expired", "Documents deleted because their time was over.",
                expired_.Get());
  visit.Gauge("documents_pinned", "Documents that are pinned.", pinned_.Get());
  visit.Gauge("document_pins_waiting",
              "Documents that are pinned and are not in DRAM since the server was started: they do "
              "not fit, or have still to be read.",
              pins_waiting_.Get());
  visit.Counter("expiry_failures", "Failed tries to delete what had expired; tried again.",
                expiry_failures_.Get());
  visit.Gauge("collections", "Collections with settings of their own.", collections_.size());
  visit.Counter("orphans_deleted", "Segments deleted because no document refers to them any more.",
                orphans_deleted_.Get());
  visit.Gauge("orphans_pending", "Segments that no document refers to and that wait to be deleted.",
              orphans_pending_.load(std::memory_order_relaxed));
  visit.Gauge("ingests", "Ingests under way: versions of documents that are reserved.",
              ingests_.size());
  visit.Counter("ingests_failed", "Ingests that ended before they were complete.",
                ingests_failed_.Get());
  visit.Counter("document_events", "Events written to the log of documents.",
                events_.num_written());
  visit.Counter("documents_adopted", "Replicas of documents that the server took.", adopted_.Get());
  visit.Counter("documents_released", "Replicas of documents that other servers keep from now on.",
                released_.Get());
  visit.Counter("documents_withdrawn",
                "Documents deleted here because the cluster had deleted them.", withdrawn_.Get());
  visit.Gauge("document_watchers", "Calls that wait for an event.", events_.num_waiting());
}

}  // namespace quire::kvserver
