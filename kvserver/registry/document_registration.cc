// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: chains become documents.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/documents/document_rules.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {
namespace {

Status CheckHash(std::string_view content_hash) {
  if (content_hash.empty() || content_hash.size() == kContentHashBytes) return OkStatus();
  return InvalidArgument("content_hash has ", content_hash.size(), " bytes; give 0 or ",
                         kContentHashBytes, " (SHA-256)");
}

Status IngestHasEnded(uint64_t id, const DocumentName& name) {
  return NotFound("ingest ", id, " of ", Describe(name),
                  " has ended: its lease ran out, or its version was deleted; begin it again");
}

}  // namespace

Status DocumentRegistryImpl::CheckSaid(std::string_view content_hash, std::string_view source,
                                       const Tags& tags, std::optional<uint64_t> ttl_seconds) {
  QUIRE_RETURN_IF_ERROR(CheckHash(content_hash));
  QUIRE_RETURN_IF_ERROR(CheckSource(source));
  QUIRE_RETURN_IF_ERROR(CheckTags(tags));
  return ttl_seconds ? CheckTtl(*ttl_seconds) : OkStatus();
}

StatusOr<DocumentRegistry::RegisterResult> DocumentRegistryImpl::Register(
    std::string_view tenant, const DocumentName& name, const Registration& registration) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  QUIRE_RETURN_IF_ERROR(CheckSaid(registration.content_hash, registration.source, registration.tags,
                                  registration.ttl_seconds));
  return agreement_ == nullptr ? RegisterAlone(tenant, name, registration)
                               : RegisterAgreed(tenant, name, registration);
}

StatusOr<DocumentRegistryImpl::Candidate> DocumentRegistryImpl::Prepare(
    std::string_view tenant, const DocumentName& name, const Registration& registration) {
  Candidate candidate;
  QUIRE_ASSIGN_OR_RETURN(candidate.held, store_->HoldChain(tenant, registration.chain_tip));
  DocumentName versioned = name;
  std::optional<Document> reserved;
  if (registration.ingest_id != 0) {
    QUIRE_ASSIGN_OR_RETURN(reserved, FindIngest(tenant, name, registration));
    versioned = reserved->name;
    if (reserved->state == DocumentState::kReady) candidate.stored.swap(reserved);
  } else if (agreement_ == nullptr || name.version != 0) {
    QUIRE_ASSIGN_OR_RETURN(candidate.stored,
                           ClaimVersion(tenant, registration.chain_tip, &versioned));
  }
  if (candidate.stored) return candidate;
  Document& document = candidate.document;
  QUIRE_ASSIGN_OR_RETURN(document, MakeDocument(tenant, versioned, *candidate.held.chain));
  document.content_hash = reserved ? reserved->content_hash : registration.content_hash;
  document.ttl_seconds = reserved ? reserved->ttl_seconds : registration.ttl_seconds;
  document.source = reserved ? reserved->source : registration.source;
  document.tags = reserved ? reserved->tags : registration.tags;
  QUIRE_ASSIGN_OR_RETURN(document.expires_unix_micros, ExpiryOfDocument(tenant, document));
  candidate.reserved = std::move(reserved);
  return candidate;
}

StatusOr<DocumentRegistry::RegisterResult> DocumentRegistryImpl::RegisterAlone(
    std::string_view tenant, const DocumentName& name, const Registration& registration) {
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Candidate candidate, Prepare(tenant, name, registration));
  if (candidate.stored) {
    // An empty batch is durable only when nothing earlier is in doubt. A failed delete of the
    // document could otherwise take effect after a restart.
    QUIRE_RETURN_IF_ERROR(metadata_->Apply({}));
    QUIRE_ASSIGN_OR_RETURN(Document document, Completed(tenant, *std::move(candidate.stored)));
    return RegisterResult{.document = std::move(document), .existed = true};
  }
  Document& document = candidate.document;
  const uint64_t version = document.name.version;
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, document.name));
  LatestVersion to = {.latest = from.latest, .highest = std::max(from.highest, version)};
  const bool moves = from.latest == 0 || (!registration.keep_latest && version > from.latest);
  if (moves) to.latest = version;
  QUIRE_RETURN_IF_ERROR(WriteReady(
      tenant, document, *candidate.held.chain, candidate.reserved, to,
      std::vector<NewEvent>{{std::string(tenant), DocumentEventKind::kRegistered, document.name}}));
  registered_.Add();
  QUIRE_ASSIGN_OR_RETURN(document, Completed(tenant, std::move(document)));
  return RegisterResult{.document = std::move(document), .existed = false};
}

Status DocumentRegistryImpl::WriteReady(std::string_view tenant, const Document& document,
                                        const Chain& chain, const std::optional<Document>& reserved,
                                        const LatestVersion& to, Events events) {
  QUIRE_RETURN_IF_ERROR(Write(tenant, document, chain, reserved, to, std::move(events)));
  QUIRE_RETURN_IF_ERROR(store_->NameSegments(tenant, chain.keys));
  if (reserved) {
    ingests_.Remove(tenant, document.name);
    tags_.Remove(tenant, reserved->tags);
  }
  tags_.Add(tenant, document.tags);
  expiries_.Add(tenant, document);
  return OkStatus();
}

StatusOr<Document> DocumentRegistryImpl::FindIngest(std::string_view tenant,
                                                    const DocumentName& name,
                                                    const Registration& registration) {
  const uint64_t id = registration.ingest_id;
  const auto reserved = ingests_.Find(tenant, id);
  if (reserved && reserved->collection == name.collection && reserved->name == name.name &&
      (name.version == 0 || name.version == reserved->version)) {
    return ReadDocument(tenant, *reserved);
  }
  if (reserved) {
    return InvalidArgument("ingest ", id, " is of ", Describe(*reserved), ", not of ",
                           Describe(name));
  }
  // The reply to an earlier registration was lost.
  const StatusOr<Document> done = ReadReady(tenant, name);
  if (done.ok() && done->chain_tip == registration.chain_tip) return done;
  return IngestHasEnded(id, name);
}

StatusOr<uint64_t> DocumentRegistryImpl::NextVersion(std::string_view tenant,
                                                     const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion row, ReadLatest(tenant, name));
  return row.highest + 1;
}

StatusOr<std::optional<Document>> DocumentRegistryImpl::ClaimVersion(std::string_view tenant,
                                                                     const SegmentKey& chain_tip,
                                                                     DocumentName* name) {
  if (name->version == 0) {
    QUIRE_ASSIGN_OR_RETURN(name->version, NextVersion(tenant, *name));
    return std::optional<Document>();
  }
  StatusOr<Document> stored = ReadDocument(tenant, *name);
  if (IsNotFound(stored.status())) return std::optional<Document>();
  QUIRE_RETURN_IF_ERROR(stored.status());
  if (stored->state == DocumentState::kIngesting) {
    return FailedPrecondition("version ", name->version, " of ", Describe(*name),
                              " is reserved by an ingest; register it with the ingest's id, or ",
                              "take the next version (0)");
  }
  if (stored->state == DocumentState::kFailed || HasExpired(*stored)) {
    Deletion deletion{.why = DocumentEventKind::kExpired};
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
                                   const Chain& chain, const std::optional<Document>& reserved,
                                   const LatestVersion& to, Events events) {
  const DocumentName& name = document.name;
  const std::string key = DocumentKey(tenant, name);
  MetadataBatch batch;
  if (reserved) {
    batch.Delete(IngestKey(tenant, name));
    batch.Delete(CreatedKey(tenant, reserved->created_unix_micros, name));
  } else {
    batch.ExpectAbsent(key);
  }
  batch.Put(key, EncodeDocument(document));
  batch.Put(CreatedKey(tenant, document.created_unix_micros, name), "");
  batch.Put(ChainKey(tenant, name), EncodeSegmentKeys(chain.keys));
  for (const SegmentKey& segment : chain.keys) {
    batch.Put(ReferenceKey(tenant, segment, name), "");
    batch.Delete(PendingDeleteKey(tenant, segment));
  }
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  std::vector<NewEvent> unheard;
  MoveLatest(tenant, name, from, to, &batch, events ? &*events : &unheard);
  return events_.Apply(std::move(batch), events.value_or(std::vector<NewEvent>()));
}

}  // namespace quire::kvserver
