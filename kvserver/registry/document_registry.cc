// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/document_registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_record.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/page_token.h"

namespace quire::kvserver {
namespace {

Status NoSuchDocument(const DocumentName& name) {
  return NotFound("document ", Describe(name), " is not registered; register it, or list the ",
                  "collection to see what is");
}

}  // namespace

StatusOr<std::unique_ptr<DocumentRegistry>> DocumentRegistry::Open(
    PageStore* store, MetadataStore* metadata, Clock* clock, const CodecParams& default_codec) {
  auto registry = std::make_unique<DocumentRegistryImpl>(store, metadata, clock, default_codec);
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

StatusOr<DocumentRegistry::RegisterResult> DocumentRegistryImpl::Register(
    std::string_view tenant, const DocumentName& name, const SegmentKey& chain_tip,
    std::string_view content_hash, std::optional<uint64_t> ttl_seconds) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  if (ttl_seconds) QUIRE_RETURN_IF_ERROR(CheckTtl(*ttl_seconds));
  if (!content_hash.empty() && content_hash.size() != kContentHashBytes) {
    return InvalidArgument("content_hash has ", content_hash.size(), " bytes; give 0 or ",
                           kContentHashBytes, " (SHA-256)");
  }
  MutexLock lock(write_mutex_);
  // Held until the document names it.
  QUIRE_ASSIGN_OR_RETURN(const HeldChain held, store_->HoldChain(tenant, chain_tip));
  const ChainPtr& chain = held.chain;
  DocumentName versioned = name;
  QUIRE_ASSIGN_OR_RETURN(std::optional<Document> stored,
                         ClaimVersion(tenant, chain_tip, &versioned));
  if (stored) {
    // An empty batch is durable only when nothing earlier is in doubt. A failed delete of the
    // document could otherwise take effect after a restart.
    QUIRE_RETURN_IF_ERROR(metadata_->Apply({}));
    return RegisterResult{.document = *std::move(stored), .existed = true};
  }
  QUIRE_ASSIGN_OR_RETURN(Document document, MakeDocument(tenant, versioned, *chain));
  document.content_hash = content_hash;
  document.ttl_seconds = ttl_seconds;
  QUIRE_ASSIGN_OR_RETURN(document.expires_unix_micros, ExpiryOfDocument(tenant, document));
  QUIRE_RETURN_IF_ERROR(Write(tenant, document, *chain));
  QUIRE_RETURN_IF_ERROR(store_->NameSegments(tenant, chain->keys));
  expiries_.Add(tenant, document);
  registered_.Add();
  return RegisterResult{.document = std::move(document), .existed = false};
}

StatusOr<std::optional<Document>> DocumentRegistryImpl::ClaimVersion(std::string_view tenant,
                                                                     const SegmentKey& chain_tip,
                                                                     DocumentName* name) {
  if (name->version == 0) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, *name));
    name->version = versions.empty() ? 1 : versions.back().version + 1;
    return std::optional<Document>();
  }
  StatusOr<Document> stored = ReadDocument(tenant, *name);
  if (absl::IsNotFound(stored.status())) return std::optional<Document>();
  QUIRE_RETURN_IF_ERROR(stored.status());
  if (HasExpired(*stored)) {
    Deletion deletion;
    QUIRE_RETURN_IF_ERROR(AddTo({std::string(tenant), *name}, &deletion));
    QUIRE_ASSIGN_OR_RETURN(const Notes notes, Commit(deletion, /*keep_segments=*/false));
    // The next sweep removes the orphans that the new document does not name.
    orphans_pending_.fetch_add(notes.size(), std::memory_order_relaxed);
    expired_.Add();
    return std::optional<Document>();
  }
  if (stored->chain_tip == chain_tip) return std::optional<Document>(*std::move(stored));
  return AlreadyExists("document ", Describe(*name),
                       " names another chain; register a new version (0) or delete it first");
}

StatusOr<Document> DocumentRegistryImpl::MakeDocument(std::string_view tenant,
                                                      const DocumentName& name,
                                                      const Chain& chain) {
  QUIRE_ASSIGN_OR_RETURN(const ChainStat stat, store_->StatChain(tenant, chain));
  if (stat.segments_lost > 0) {
    return NotFound(stat.segments_lost, " segments of the chain ", chain.keys.back().Hex(),
                    " are lost or damaged; put the document's pages again, then register it");
  }
  Document document;
  document.name = name;
  document.chain_tip = chain.keys.back();
  document.num_tokens = chain.num_tokens;
  document.bytes = stat.bytes;
  document.model = chain.spec.model;
  document.created_unix_micros = clock_->UnixMicros();
  return document;
}

Status DocumentRegistryImpl::Write(std::string_view tenant, const Document& document,
                                   const Chain& chain) {
  const std::string key = DocumentKey(tenant, document.name);
  MetadataBatch batch;
  batch.ExpectAbsent(key);
  batch.Put(key, EncodeDocument(document));
  batch.Put(ChainKey(tenant, document.name), EncodeSegmentKeys(chain.keys));
  for (const SegmentKey& segment : chain.keys) {
    batch.Put(ReferenceKey(tenant, segment, document.name), "");
    batch.Delete(PendingDeleteKey(tenant, segment));
  }
  return metadata_->Apply(batch);
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
  if (absl::IsNotFound(value.status())) return NoSuchDocument(name);
  QUIRE_RETURN_IF_ERROR(value.status());
  QUIRE_ASSIGN_OR_RETURN(Document document, DecodeDocument(name, *value));
  QUIRE_ASSIGN_OR_RETURN(document.expires_unix_micros, ExpiryOfDocument(tenant, document));
  return document;
}

StatusOr<Document> DocumentRegistryImpl::Get(std::string_view tenant, const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  std::vector<DocumentName> candidates = {name};
  if (name.version == 0) {
    QUIRE_ASSIGN_OR_RETURN(candidates, Versions(tenant, name));
  }
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
    StatusOr<Document> document = ReadDocument(tenant, *it);
    if (absl::IsNotFound(document.status())) continue;  // Deleted meanwhile.
    QUIRE_RETURN_IF_ERROR(document.status());
    if (HasExpired(*document)) continue;
    document->segments_lost = store_->LostSegments(tenant, document->chain_tip);
    return document;
  }
  return NoSuchDocument(name);
}

StatusOr<DocumentRegistry::ListResult> DocumentRegistryImpl::List(std::string_view tenant,
                                                                  std::string_view collection,
                                                                  uint32_t page_size,
                                                                  std::string_view page_token) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  if (!collection.empty()) QUIRE_RETURN_IF_ERROR(CheckCollection(collection));
  QUIRE_ASSIGN_OR_RETURN(const uint32_t limit, CheckPageSize(page_size));
  const std::string prefix =
      collection.empty() ? DocumentsPrefix(tenant) : CollectionPrefix(tenant, collection);
  QUIRE_ASSIGN_OR_RETURN(std::string after, DecodePageToken(page_token, prefix));
  ListResult result;
  for (;;) {
    // One more than the rest of the page, to know whether another page follows.
    const auto wanted = limit - static_cast<uint32_t>(result.documents.size());
    QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                           metadata_->Scan(prefix, after, wanted + 1));
    const size_t taken = std::min<size_t>(entries.size(), wanted);
    const size_t first = result.documents.size();
    QUIRE_RETURN_IF_ERROR(AppendLive(tenant, std::span(entries).first(taken), &result.documents));
    for (Document& document : std::span(result.documents).subspan(first)) {
      document.segments_lost = store_->LostSegments(tenant, document.chain_tip);
    }
    if (taken == entries.size()) return result;
    after = entries[taken - 1].key;
    if (result.documents.size() == limit) {
      result.next_page_token = EncodePageToken(after);
      return result;
    }
  }
}

Status DocumentRegistryImpl::AppendLive(std::string_view tenant,
                                        std::span<const MetadataEntry> entries,
                                        std::vector<Document>* documents) {
  // Entries are in order of collections: the settings of one are read once.
  std::optional<std::string> known;
  CollectionSettings settings;
  for (const MetadataEntry& entry : entries) {
    const auto name = ParseDocumentName(entry.key);
    if (!name) return DataLoss("the registry holds a malformed key; restore it from a backup");
    if (known != name->collection) {
      QUIRE_ASSIGN_OR_RETURN(settings, collections_.Get(tenant, name->collection));
      known = name->collection;
    }
    QUIRE_ASSIGN_OR_RETURN(Document document, DecodeDocument(*name, entry.value));
    document.expires_unix_micros =
        ExpiryOf(document.created_unix_micros,
                 document.ttl_seconds ? document.ttl_seconds : settings.ttl_seconds);
    if (!HasExpired(document)) documents->push_back(std::move(document));
  }
  return OkStatus();
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::Delete(std::string_view tenant,
                                                                      const DocumentName& name,
                                                                      bool keep_segments) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(std::vector<DocumentName> versions, Versions(tenant, name));
  std::erase_if(versions, [&](const DocumentName& version) {
    if (name.version != 0 && version.version != name.version) return true;
    // An expired document is gone; an unreadable one can still be deleted.
    const StatusOr<Document> document = ReadDocument(tenant, version);
    return document.ok() && HasExpired(*document);
  });
  if (versions.empty()) return NoSuchDocument(name);
  DeleteResult result;
  for (auto version = versions.begin(); version != versions.end();) {
    Deletion deletion;
    for (; version != versions.end() && !deletion.IsFull(); ++version) {
      QUIRE_RETURN_IF_ERROR(AddTo({std::string(tenant), *version}, &deletion));
    }
    QUIRE_ASSIGN_OR_RETURN(const Notes notes, Commit(deletion, keep_segments));
    deleted_.Add(deletion.documents.size());
    result.num_documents += static_cast<uint32_t>(deletion.documents.size());
    QUIRE_ASSIGN_OR_RETURN(const uint32_t removed, RemoveNoted(notes));
    result.num_segments += removed;
  }
  return result;
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
}

}  // namespace quire::kvserver
