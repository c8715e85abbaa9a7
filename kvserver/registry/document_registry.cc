// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/document_registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_record.h"
#include "kvserver/registry/document_registry_impl.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kDefaultPageSize = 100;
constexpr uint32_t kMaxPageSize = 1000;
constexpr size_t kContentHashBytes = 32;

Status NoSuchDocument(const DocumentName& name) {
  return NotFound("document ", Describe(name), " is not registered; register it, or list the ",
                  "collection to see what is");
}

/// Page tokens are the last key of a page, in hexadecimal.
std::string EncodeToken(std::string_view key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : key) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[c & 15]);
  }
  return out;
}

StatusOr<std::string> DecodeToken(std::string_view token, std::string_view prefix) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string key;
  for (size_t i = 0; i + 1 < token.size(); i += 2) {
    const size_t high = kDigits.find(token[i]), low = kDigits.find(token[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) break;
    key.push_back(static_cast<char>(high << 4 | low));
  }
  if (token.size() != 2 * key.size() || (!key.empty() && !key.starts_with(prefix))) {
    return InvalidArgument("the page token is not one of this listing; start without one");
  }
  return key;
}

}  // namespace

StatusOr<std::unique_ptr<DocumentRegistry>> DocumentRegistry::Open(PageStore* store,
                                                                   MetadataStore* metadata,
                                                                   Clock* clock) {
  auto registry = std::make_unique<DocumentRegistryImpl>(store, metadata, clock);
  QUIRE_RETURN_IF_ERROR(registry->RemoveOrphans().status());
  return std::unique_ptr<DocumentRegistry>(std::move(registry));
}

StatusOr<DocumentRegistry::RegisterResult> DocumentRegistryImpl::Register(
    std::string_view tenant, const DocumentName& name, const SegmentKey& chain_tip,
    std::string_view content_hash) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  if (!content_hash.empty() && content_hash.size() != kContentHashBytes) {
    return InvalidArgument("content_hash has ", content_hash.size(), " bytes; give 0 or ",
                           kContentHashBytes, " (SHA-256)");
  }
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const ChainPtr chain, store_->ResolveChain(tenant, chain_tip));
  DocumentName versioned = name;
  if (name.version == 0) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, name));
    versioned.version = versions.empty() ? 1 : versions.back().version + 1;
  } else {
    StatusOr<Document> stored = ReadDocument(tenant, name);
    if (stored.ok() && stored->chain_tip == chain_tip) {
      return RegisterResult{.document = *std::move(stored), .existed = true};
    }
    if (stored.ok()) {
      return AlreadyExists("document ", Describe(name),
                           " names another chain; register a new version (0) or delete it first");
    }
    if (stored.status().code() != StatusCode::kNotFound) return stored.status();
  }
  QUIRE_ASSIGN_OR_RETURN(Document document, MakeDocument(tenant, versioned, *chain, content_hash));
  QUIRE_RETURN_IF_ERROR(Write(tenant, document, *chain));
  registered_.Add();
  return RegisterResult{.document = std::move(document), .existed = false};
}

StatusOr<Document> DocumentRegistryImpl::MakeDocument(std::string_view tenant,
                                                      const DocumentName& name, const Chain& chain,
                                                      std::string_view content_hash) {
  QUIRE_ASSIGN_OR_RETURN(const ChainStat stat, store_->StatChain(tenant, chain));
  return Document{.name = name,
                  .chain_tip = chain.keys.back(),
                  .num_tokens = chain.num_tokens,
                  .bytes = stat.bytes,
                  .model = chain.spec.model,
                  .created_unix_micros = clock_->UnixMicros(),
                  .content_hash = std::string(content_hash)};
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
  if (value.status().code() == StatusCode::kNotFound) return NoSuchDocument(name);
  QUIRE_RETURN_IF_ERROR(value.status());
  return DecodeDocument(name, *value);
}

StatusOr<Document> DocumentRegistryImpl::Get(std::string_view tenant, const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  if (name.version != 0) return ReadDocument(tenant, name);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, name));
  if (versions.empty()) return NoSuchDocument(name);
  return ReadDocument(tenant, versions.back());
}

StatusOr<DocumentRegistry::ListResult> DocumentRegistryImpl::List(std::string_view tenant,
                                                                  std::string_view collection,
                                                                  uint32_t page_size,
                                                                  std::string_view page_token) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  if (!collection.empty()) QUIRE_RETURN_IF_ERROR(CheckCollection(collection));
  if (page_size > kMaxPageSize) {
    return InvalidArgument("page_size is ", page_size, ", must be at most ", kMaxPageSize);
  }
  if (page_size == 0) page_size = kDefaultPageSize;
  const std::string prefix =
      collection.empty() ? DocumentsPrefix(tenant) : CollectionPrefix(tenant, collection);
  QUIRE_ASSIGN_OR_RETURN(const std::string after, DecodeToken(page_token, prefix));
  // One more than the page, to know whether another page follows.
  QUIRE_ASSIGN_OR_RETURN(std::vector<MetadataEntry> entries,
                         metadata_->Scan(prefix, after, page_size + 1));
  ListResult result;
  if (entries.size() > page_size) {
    entries.pop_back();
    result.next_page_token = EncodeToken(entries.back().key);
  }
  for (const MetadataEntry& entry : entries) {
    const auto name = ParseDocumentName(entry.key);
    if (!name) return DataLoss("the registry holds a malformed key; restore it from a backup");
    QUIRE_ASSIGN_OR_RETURN(Document document, DecodeDocument(*name, entry.value));
    result.documents.push_back(std::move(document));
  }
  return result;
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::Delete(std::string_view tenant,
                                                                      const DocumentName& name,
                                                                      bool keep_segments) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(std::vector<DocumentName> versions, Versions(tenant, name));
  if (name.version != 0) {
    std::erase_if(versions, [&](const DocumentName& v) { return v.version != name.version; });
  }
  if (versions.empty()) return NoSuchDocument(name);
  DeleteResult result;
  for (const DocumentName& version : versions) {
    QUIRE_RETURN_IF_ERROR(DeleteVersion(tenant, version, keep_segments));
    deleted_.Add();
    ++result.num_documents;
  }
  QUIRE_ASSIGN_OR_RETURN(result.num_segments, RemoveOrphansLocked());
  return result;
}

Status DocumentRegistryImpl::DeleteVersion(std::string_view tenant, const DocumentName& name,
                                           bool keep_segments) {
  MetadataBatch batch;
  batch.Delete(DocumentKey(tenant, name));
  batch.Delete(ChainKey(tenant, name));
  QUIRE_ASSIGN_OR_RETURN(const std::string chain, metadata_->Get(ChainKey(tenant, name)));
  const StatusOr<std::vector<SegmentKey>> segments = DecodeSegmentKeys(chain);
  // With a damaged list the document can still be deleted; its segments then stay referenced.
  for (const SegmentKey& segment : segments.value_or(std::vector<SegmentKey>())) {
    const std::string reference = ReferenceKey(tenant, segment, name);
    batch.Delete(reference);
    if (keep_segments) continue;
    QUIRE_ASSIGN_OR_RETURN(const bool orphan, OnlyReferenceIs(tenant, segment, reference));
    if (orphan) batch.Put(PendingDeleteKey(tenant, segment), "");
  }
  return metadata_->Apply(batch);
}

StatusOr<bool> DocumentRegistryImpl::OnlyReferenceIs(std::string_view tenant,
                                                     const SegmentKey& segment,
                                                     std::string_view reference_key) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> references,
                         metadata_->Scan(ReferencesPrefix(tenant, segment), "", 2));
  return references.size() == 1 && references.front().key == reference_key;
}

StatusOr<uint32_t> DocumentRegistryImpl::RemoveOrphans() {
  MutexLock lock(write_mutex_);
  return RemoveOrphansLocked();
}

StatusOr<uint32_t> DocumentRegistryImpl::RemoveOrphansLocked() {
  const std::string prefix = PendingDeletesPrefix();
  uint32_t removed = 0;
  uint64_t pending = 0;
  std::string after;
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                           metadata_->Scan(prefix, after, MetadataStore::kMaxScanEntries));
    MetadataBatch done;
    for (const MetadataEntry& entry : entries) {
      const Orphan orphan = RemoveOrphan(entry.key);
      if (orphan == Orphan::kRemoved) ++removed;
      if (orphan == Orphan::kStays) {
        ++pending;
      } else {
        done.Delete(entry.key);
      }
    }
    if (!done.operations.empty()) QUIRE_RETURN_IF_ERROR(metadata_->Apply(done));
    if (entries.size() < MetadataStore::kMaxScanEntries) break;
    after = entries.back().key;
  }
  orphans_deleted_.Add(removed);
  orphans_pending_.store(pending, std::memory_order_relaxed);
  return removed;
}

DocumentRegistryImpl::Orphan DocumentRegistryImpl::RemoveOrphan(std::string_view note) {
  const auto orphan = ParsePendingDelete(note);
  if (!orphan) return Orphan::kGone;
  if (!store_->CheckTenant(orphan->tenant).ok()) return Orphan::kStays;  // not served now
  const Status status = store_->DeleteSegment(orphan->tenant, orphan->segment);
  if (status.ok()) return Orphan::kRemoved;
  return status.code() == StatusCode::kNotFound ? Orphan::kGone : Orphan::kStays;
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
  return store_->DeleteSegment(tenant, key);
}

void DocumentRegistryImpl::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("documents_registered", "Documents registered.", registered_.Get());
  visit.Counter("documents_deleted", "Documents deleted.", deleted_.Get());
  visit.Counter("orphans_deleted", "Segments deleted because no document refers to them any more.",
                orphans_deleted_.Get());
  visit.Gauge("orphans_pending", "Segments that no document refers to and that wait to be deleted.",
              orphans_pending_.load(std::memory_order_relaxed));
}

}  // namespace quire::kvserver
