// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: deletion of documents and their unreferenced segments.
#include <algorithm>
#include <map>
#include <utility>

#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_record.h"
#include "kvserver/registry/document_registry_impl.h"

namespace quire::kvserver {
namespace {

/// Notes examined while other writers wait.
constexpr uint32_t kSweepSlice = 256;

}  // namespace

Status DocumentRegistryImpl::AddTo(const TenantDocument& document, Deletion* deletion) {
  QUIRE_ASSIGN_OR_RETURN(const std::string chain,
                         metadata_->Get(ChainKey(document.tenant, document.name)));
  // With a damaged list the document can still be deleted; its segments then stay referenced.
  std::vector<SegmentKey> segments = DecodeSegmentKeys(chain).value_or(std::vector<SegmentKey>());
  deletion->num_segments += segments.size();
  deletion->documents.push_back({document, std::move(segments)});
  return OkStatus();
}

StatusOr<DocumentRegistryImpl::Notes> DocumentRegistryImpl::Commit(const Deletion& deletion,
                                                                   bool keep_segments) {
  std::vector<Loss> orphans;
  if (deletion.documents.empty()) return Notes();
  if (!keep_segments) {
    QUIRE_ASSIGN_OR_RETURN(orphans, OrphansOf(deletion));
  }
  MetadataBatch batch;
  for (const auto& [document, segments] : deletion.documents) {
    const auto& [tenant, name] = document;
    const std::string document_key = DocumentKey(tenant, name);
    batch.Delete(document_key);
    batch.Delete(ChainKey(tenant, name));
    if (IsPinned(document_key)) batch.Delete(PinKey(tenant, name));
    for (const SegmentKey& segment : segments) batch.Delete(ReferenceKey(tenant, segment, name));
  }
  Notes notes;
  for (const Loss& orphan : orphans) {
    // Before the note: later puts then have another incarnation than the note.
    const auto incarnations = store_->ForsakeSegments(orphan.tenant, {&orphan.segment, 1});
    notes.push_back({PendingDeleteKey(orphan.tenant, orphan.segment),
                     EncodePendingDelete(incarnations.front())});
    batch.Put(notes.back().key, notes.back().value);
  }
  if (Status applied = metadata_->Apply(batch); !applied.ok()) {
    for (const Loss& orphan : orphans) store_->WantSegments(orphan.tenant, {&orphan.segment, 1});
    return applied;
  }
  for (const auto& [document, segments] : deletion.documents) {
    store_->UnnameSegments(document.tenant, segments);
    expiries_.Remove(document.tenant, document.name);
    ForgetPin(document.tenant, DocumentKey(document.tenant, document.name));
  }
  return notes;
}

StatusOr<std::vector<DocumentRegistryImpl::Loss>> DocumentRegistryImpl::OrphansOf(
    const Deletion& deletion) {
  std::map<std::string, Loss> losses;  // By ReferencesPrefix.
  for (const auto& [document, segments] : deletion.documents) {
    for (const SegmentKey& segment : segments) {
      Loss& loss = losses[ReferencesPrefix(document.tenant, segment)];
      loss.tenant = document.tenant;
      loss.segment = segment;
      loss.references.insert(ReferenceKey(document.tenant, segment, document.name));
    }
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
  return !references.empty() && std::ranges::all_of(references, [&](const MetadataEntry& entry) {
    return loss.references.contains(entry.key);
  });
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
      store_->RemoveForsaken(orphan->tenant, orphan->segment, DecodePendingDelete(note.value));
  if (status.ok()) return Orphan::kRemoved;
  return status.code() == StatusCode::kNotFound ? Orphan::kGone : Orphan::kStays;
}

}  // namespace quire::kvserver
