// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: deletion of documents and their unreferenced segments.
#include <algorithm>
#include <map>
#include <utility>

#include "common/documents/document_rules.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/extras/extra_record.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {
namespace {

/// Notes examined while other writers wait.
constexpr uint32_t kSweepSlice = 256;

}  // namespace

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::Delete(std::string_view tenant,
                                                                      const DocumentName& name,
                                                                      bool keep_segments) {
  return DeleteVersions(tenant, name, DocumentEventKind::kDeleted, keep_segments);
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::Invalidate(
    std::string_view tenant, const DocumentName& name) {
  return DeleteVersions(tenant, name, DocumentEventKind::kInvalidated, /*keep_segments=*/false);
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::InvalidateSource(
    std::string_view tenant, std::string_view source) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckSource(source));
  if (source.empty()) return InvalidArgument("the source is empty; name one, or a document");
  std::vector<DocumentName> names;
  QUIRE_RETURN_IF_ERROR(
      ForEachEntry(*metadata_, DocumentsPrefix(tenant), [&](const MetadataEntry& entry) {
        const auto name = ParseDocumentName(entry.key);
        if (!name) return;
        const StatusOr<Document> document = DecodeDocument(*name, entry.value);
        if (document.ok() && document->source == source) names.push_back(*name);
      }));
  DeleteResult result;
  for (const DocumentName& name : names) {
    const StatusOr<DeleteResult> one = Invalidate(tenant, name);
    if (IsNotFound(one.status())) continue;  // Deleted or expired meanwhile.
    QUIRE_RETURN_IF_ERROR(one.status());
    result.num_documents += one->num_documents;
    result.num_segments += one->num_segments;
  }
  if (result.num_documents > 0) return result;
  return NotFound("no document has the source '", source, "'; list the documents to see theirs");
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::DeleteVersions(
    std::string_view tenant, const DocumentName& name, DocumentEventKind why, bool keep_segments) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  if (agreement_ != nullptr) return DeleteAgreed(tenant, name, why, keep_segments);
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, LiveVersions(tenant, name));
  if (versions.empty()) return NoSuchDocument(name);
  return DeleteRowsOf(tenant, versions, {.why = why}, keep_segments, &deleted_);
}

StatusOr<std::vector<DocumentName>> DocumentRegistryImpl::LiveVersions(std::string_view tenant,
                                                                       const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<DocumentName> versions, Versions(tenant, name));
  std::erase_if(versions, [&](const DocumentName& version) {
    if (name.version != 0 && version.version != name.version) return true;
    // An expired document is gone; an unreadable one can still be deleted.
    const StatusOr<Document> document = ReadDocument(tenant, version);
    return document.ok() && HasExpired(*document);
  });
  return versions;
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::DeleteRowsOf(
    std::string_view tenant, const std::vector<DocumentName>& versions, const Deletion& kind,
    bool keep_segments, Counter* counter) {
  DeleteResult result;
  for (auto version = versions.begin(); version != versions.end();) {
    Deletion deletion = kind;
    for (; version != versions.end() && !deletion.IsFull(); ++version) {
      QUIRE_RETURN_IF_ERROR(AddTo({std::string(tenant), *version}, &deletion));
    }
    QUIRE_ASSIGN_OR_RETURN(const Notes notes, Commit(deletion, keep_segments));
    counter->Add(deletion.documents.size());
    result.num_documents += static_cast<uint32_t>(deletion.documents.size());
    QUIRE_ASSIGN_OR_RETURN(const uint32_t removed, RemoveNoted(notes));
    result.num_segments += removed;
  }
  return result;
}

Status DocumentRegistryImpl::AddTo(const TenantDocument& document, Deletion* deletion) {
  const auto& [tenant, name] = document;
  Deletion::Entry entry{.document = document, .segments = {}};
  // A damaged record or list does not stop a deletion; its segments then stay referenced.
  StatusOr<Document> record = ReadDocument(tenant, name);
  if (record.ok()) entry.record = *std::move(record);
  const StatusOr<std::string> chain = metadata_->Get(ChainKey(tenant, name));
  const bool has_chain = !entry.record || entry.record->state == DocumentState::kReady;
  if (has_chain || !IsNotFound(chain.status())) QUIRE_RETURN_IF_ERROR(chain.status());
  if (chain.ok()) {
    entry.segments = DecodeSegmentKeys(*chain).value_or(std::vector<SegmentKey>());
  }
  QUIRE_ASSIGN_OR_RETURN(entry.derived, DerivedOf(document));
  deletion->num_segments += entry.segments.size() + entry.derived.size();
  deletion->documents.push_back(std::move(entry));
  return OkStatus();
}

StatusOr<std::vector<SegmentKey>> DocumentRegistryImpl::DerivedOf(const TenantDocument& document) {
  const auto& [tenant, name] = document;
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<MetadataEntry> extras,
      metadata_->Scan(ExtrasPrefix(tenant, name), "", MetadataStore::kMaxScanEntries));
  std::vector<SegmentKey> derived;
  for (const MetadataEntry& extra : extras) {
    // The segments of a damaged record leave as others that no document names.
    const auto segments = DecodeExtraSegments("", extra.value);
    if (segments.ok()) derived.insert(derived.end(), segments->begin(), segments->end());
  }
  return derived;
}

Status DocumentRegistryImpl::DeleteRows(const Deletion::Entry& entry, MetadataBatch* batch) {
  const auto& [tenant, name] = entry.document;
  const std::string document_key = DocumentKey(tenant, name);
  batch->Delete(document_key);
  batch->Delete(ChainKey(tenant, name));
  batch->Delete(StatisticsKey(tenant, name));
  if (IsPinned(document_key)) batch->Delete(PinKey(tenant, name));
  if (entry.record) {
    batch->Delete(CreatedKey(tenant, entry.record->created_unix_micros, name));
    if (entry.record->state == DocumentState::kIngesting) batch->Delete(IngestKey(tenant, name));
  }
  for (const SegmentKey& segment : entry.segments) {
    batch->Delete(ReferenceKey(tenant, segment, name));
  }
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<MetadataEntry> extras,
      metadata_->Scan(ExtrasPrefix(tenant, name), "", MetadataStore::kMaxScanEntries));
  for (const MetadataEntry& extra : extras) {
    batch->Delete(extra.key);
    if (const auto extra_name = ParseExtraName(extra.key)) {
      batch->Delete(ExtraBytesKey(tenant, name, *extra_name));
    }
  }
  return OkStatus();
}

void DocumentRegistryImpl::Forget(const Deletion::Entry& entry) {
  const auto& [tenant, name] = entry.document;
  store_->UnnameSegments(tenant, entry.segments);
  expiries_.Remove(tenant, name);
  ForgetPin(tenant, DocumentKey(tenant, name));
  statistics_.Forget(tenant, name);
  ingests_.Remove(tenant, name);
  if (entry.record) tags_.Remove(tenant, entry.record->tags);
}

StatusOr<DocumentRegistryImpl::Notes> DocumentRegistryImpl::Commit(const Deletion& deletion,
                                                                   bool keep_segments) {
  std::vector<Loss> orphans;
  if (deletion.documents.empty()) return Notes();
  if (!keep_segments) {
    QUIRE_ASSIGN_OR_RETURN(orphans, OrphansOf(deletion));
  }
  MetadataBatch batch;
  std::vector<NewEvent> events;
  for (const Deletion::Entry& entry : deletion.documents) {
    QUIRE_RETURN_IF_ERROR(DeleteRows(entry, &batch));
    events.push_back({entry.document.tenant, deletion.why, entry.document.name});
  }
  QUIRE_RETURN_IF_ERROR(MoveLatestOff(deletion, &batch, &events));
  if (!deletion.has_events) events.clear();
  Notes notes;
  for (const Loss& orphan : orphans) {
    // Before the note: later puts then have another incarnation than the note.
    const auto incarnations = store_->MarkForDeletion(orphan.tenant, {&orphan.segment, 1});
    notes.push_back({PendingDeleteKey(orphan.tenant, orphan.segment),
                     EncodePendingDelete(incarnations.front())});
    batch.Put(notes.back().key, notes.back().value);
  }
  if (Status applied = events_.Apply(std::move(batch), events); !applied.ok()) {
    for (const Loss& orphan : orphans)
      store_->UnmarkForDeletion(orphan.tenant, {&orphan.segment, 1});
    return applied;
  }
  for (const Deletion::Entry& entry : deletion.documents) Forget(entry);
  return notes;
}

StatusOr<std::vector<DocumentRegistryImpl::Loss>> DocumentRegistryImpl::OrphansOf(
    const Deletion& deletion) {
  std::map<std::string, Loss> losses;  // By ReferencesPrefix.
  const auto loss_of = [&losses](std::string_view tenant, const SegmentKey& segment) -> Loss& {
    Loss& loss = losses[ReferencesPrefix(tenant, segment)];
    loss.tenant = tenant;
    loss.segment = segment;
    return loss;
  };
  for (const Deletion::Entry& entry : deletion.documents) {
    const auto& [tenant, name] = entry.document;
    for (const SegmentKey& segment : entry.segments) {
      loss_of(tenant, segment).references.insert(ReferenceKey(tenant, segment, name));
    }
    for (const SegmentKey& segment : entry.derived) (void)loss_of(tenant, segment);
  }
  std::vector<Loss> orphans;
  for (auto& [prefix, loss] : losses) {
    QUIRE_ASSIGN_OR_RETURN(const bool orphan, LosesAll(loss));
    if (orphan) orphans.push_back(std::move(loss));
  }
  return orphans;
}

StatusOr<bool> DocumentRegistryImpl::LosesAll(const Loss& loss) {
  // A segment with more names than the deletion removes is no orphan; its references need no scan.
  if (store_->CountNames(loss.segment) > loss.references.size()) return false;
  const auto most = static_cast<uint32_t>(loss.references.size() + 1);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> references,
                         metadata_->Scan(ReferencesPrefix(loss.tenant, loss.segment), "", most));
  if (references.empty()) return loss.references.empty();
  return std::ranges::all_of(
      references, [&](const MetadataEntry& entry) { return loss.references.contains(entry.key); });
}

StatusOr<uint32_t> DocumentRegistryImpl::RemoveOrphans() {
  // RemoveNoted counts the remaining ones again.
  const uint64_t before = orphans_pending_.exchange(0, std::memory_order_relaxed);
  uint32_t removed = 0;
  std::string after;
  for (;;) {
    const StatusOr<bool> more = SweepSlice(&after, &removed);
    if (!more.ok()) orphans_pending_.fetch_add(before, std::memory_order_relaxed);
    QUIRE_RETURN_IF_ERROR(more.status());
    if (!*more) return removed;
  }
}

StatusOr<bool> DocumentRegistryImpl::SweepSlice(std::string* after, uint32_t* removed) {
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const Notes notes,
                         metadata_->Scan(PendingDeletesPrefix(), *after, kSweepSlice));
  if (notes.empty()) return false;
  QUIRE_ASSIGN_OR_RETURN(const uint32_t some, RemoveNoted(notes));
  *removed += some;
  *after = notes.back().key;
  return true;
}

StatusOr<uint32_t> DocumentRegistryImpl::RemoveNoted(const Notes& notes) {
  uint32_t removed = 0;
  MetadataBatch done;
  for (const MetadataEntry& note : notes) {
    const Orphan orphan = RemoveOrphan(note);
    if (orphan == Orphan::kRemoved) ++removed;
    if (orphan != Orphan::kStays) done.Delete(note.key);
  }
  const Status cleared = done.operations.empty() ? OkStatus() : metadata_->Apply(done);
  const size_t gone = cleared.ok() ? done.operations.size() : 0;
  orphans_pending_.fetch_add(notes.size() - gone, std::memory_order_relaxed);
  orphans_deleted_.Add(removed);
  QUIRE_RETURN_IF_ERROR(cleared);
  return removed;
}

DocumentRegistryImpl::Orphan DocumentRegistryImpl::RemoveOrphan(const MetadataEntry& note) {
  const auto orphan = ParsePendingDelete(note.key);
  if (!orphan) return Orphan::kGone;
  if (!store_->CheckTenant(orphan->tenant).ok()) return Orphan::kStays;  // not served now
  const Status status =
      store_->RemoveMarked(orphan->tenant, orphan->segment, DecodePendingDelete(note.value));
  if (status.ok()) return Orphan::kRemoved;
  return status.code() == StatusCode::kNotFound ? Orphan::kGone : Orphan::kStays;
}

}  // namespace quire::kvserver
