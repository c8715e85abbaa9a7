// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: rows follow what was agreed. Nothing here asks the agreement.
#include <algorithm>
#include <optional>
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {

LatestVersion DocumentRegistryImpl::NewerOf(const LatestVersion& known, const AgreedName& agreed) {
  if (agreed.revision < known.revision) return known;
  return {.latest = agreed.latest, .highest = agreed.highest, .revision = agreed.revision};
}

StatusOr<std::vector<Document>> DocumentRegistryImpl::Align(std::string_view tenant,
                                                            const DocumentName& name,
                                                            const AgreedName& agreed) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  MutexLock lock(write_mutex_);
  return AlignRows(tenant, name, agreed, std::nullopt);
}

StatusOr<std::vector<Document>> DocumentRegistryImpl::AlignRows(std::string_view tenant,
                                                                const DocumentName& name,
                                                                const AgreedName& agreed,
                                                                Events events) {
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, name));
  if (agreed.revision < from.revision) {
    if (events && !events->empty()) QUIRE_RETURN_IF_ERROR(events_.Apply({}, *events));
    return std::vector<Document>();
  }
  Alignment alignment{.agreed = agreed, .missing = agreed.versions};
  for (const DocumentName& version : versions) {
    QUIRE_RETURN_IF_ERROR(CompareRow(tenant, version, &alignment));
  }
  // They are published first.
  if (IsUnknown(from) && !alignment.withdrawn.empty()) {
    introduced_.store(false, std::memory_order_relaxed);
    return std::move(alignment.missing);
  }
  QUIRE_RETURN_IF_ERROR(WriteAlignment(tenant, name, from, alignment, std::move(events)));
  const Deletion kind{.has_events = false, .agreed = {{LatestKey(tenant, name), agreed}}};
  QUIRE_RETURN_IF_ERROR(
      DeleteRowsOf(tenant, alignment.withdrawn, kind, /*keep_segments=*/false, &withdrawn_)
          .status());
  return std::move(alignment.missing);
}

Status DocumentRegistryImpl::CompareRow(std::string_view tenant, const DocumentName& version,
                                        Alignment* alignment) {
  // The record alone: settings of a collection say nothing of what is agreed.
  QUIRE_ASSIGN_OR_RETURN(const std::string record, metadata_->Get(DocumentKey(tenant, version)));
  StatusOr<Document> row = DecodeDocument(version, record);
  if (!row.ok() && !IsDataLoss(row.status())) return row.status();
  if (row.ok() && row->state != DocumentState::kReady) {
    ++alignment->num_kept;  // An ingest of this server.
    return OkStatus();
  }
  const Document* const agreed = alignment->agreed.Find(version.version);
  const auto tip = row.ok() ? std::optional(row->chain_tip) : TipOf(tenant, version);
  if (agreed == nullptr || agreed->chain_tip != tip) {
    alignment->withdrawn.push_back(version);
    return OkStatus();
  }
  ++alignment->num_kept;
  std::erase_if(alignment->missing,
                [&](const Document& document) { return document.name.version == version.version; });
  if (record == EncodeDocument(*agreed)) return OkStatus();
  std::optional<Document> before;
  if (row.ok()) before = *std::move(row);
  alignment->changed.push_back({.before = std::move(before), .after = *agreed});
  return OkStatus();
}

std::optional<SegmentKey> DocumentRegistryImpl::TipOf(std::string_view tenant,
                                                      const DocumentName& version) {
  const StatusOr<std::string> chain = metadata_->Get(ChainKey(tenant, version));
  if (!chain.ok()) return std::nullopt;
  const auto segments = DecodeSegmentKeys(*chain);
  if (!segments.ok() || segments->empty()) return std::nullopt;
  return segments->back();
}

Status DocumentRegistryImpl::WriteAlignment(std::string_view tenant, const DocumentName& name,
                                            const LatestVersion& from, const Alignment& alignment,
                                            Events events) {
  MetadataBatch batch;
  for (const auto& change : alignment.changed) {
    const DocumentName& version = change.after.name;
    if (change.before) {
      batch.Delete(CreatedKey(tenant, change.before->created_unix_micros, version));
    }
    batch.Put(CreatedKey(tenant, change.after.created_unix_micros, version), "");
    batch.Put(DocumentKey(tenant, version), EncodeDocument(change.after));
  }
  std::vector<NewEvent> unheard;
  if (alignment.num_kept > 0) {
    MoveLatest(tenant, name, from, NewerOf(from, alignment.agreed), &batch,
               events ? &*events : &unheard);
  } else {
    gone_names_.Note(LatestKey(tenant, name), alignment.agreed.revision);
  }
  const std::vector<NewEvent> told = std::move(events).value_or(std::vector<NewEvent>());
  if (batch.operations.empty() && told.empty()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(events_.Apply(std::move(batch), told));
  for (const auto& change : alignment.changed) {
    if (change.before) tags_.Remove(tenant, change.before->tags);
    tags_.Add(tenant, change.after.tags);
    expiries_.Add(tenant, change.after);
  }
  return OkStatus();
}

Status DocumentRegistryImpl::Settle(std::string_view tenant, const Document& document,
                                    const Chain& chain, const AgreedName& agreed, Events events) {
  const DocumentName& name = document.name;
  StatusOr<Document> row = ReadDocument(tenant, name);
  const bool is_ready = row.ok() && row->state == DocumentState::kReady;
  if (is_ready && row->chain_tip == document.chain_tip) {
    return AlignRows(tenant, name, agreed, std::move(events)).status();
  }
  std::optional<Document> reserved;
  if (row.ok() && !is_ready) {
    reserved = *std::move(row);
  } else if (!IsNotFound(row.status())) {
    // Another chain, or a row that cannot be read.
    QUIRE_RETURN_IF_ERROR(DeleteRowsOf(tenant, {name}, {.has_events = false},
                                       /*keep_segments=*/false, &withdrawn_)
                              .status());
  }
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  return WriteReady(tenant, document, chain, reserved, NewerOf(from, agreed), std::move(events));
}

Status DocumentRegistryImpl::Adopt(std::string_view tenant, const DocumentName& name,
                                   const AgreedName& agreed) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  const Document* const document = agreed.Find(name.version);
  if (document == nullptr) {
    return FailedPrecondition("the cluster does not know ", Describe(name), ": read it again");
  }
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion known, ReadLatest(tenant, name));
  if (known.revision > agreed.revision) {
    return FailedPrecondition("a newer state of ", Describe(name), " is known: read it again");
  }
  QUIRE_ASSIGN_OR_RETURN(const HeldChain held, store_->HoldChain(tenant, document->chain_tip));
  // Refuses a chain with lost segments.
  QUIRE_RETURN_IF_ERROR(MakeDocument(tenant, name, *held.chain).status());
  QUIRE_RETURN_IF_ERROR(Settle(tenant, *document, *held.chain, agreed, std::nullopt));
  adopted_.Add();
  return OkStatus();
}

Status DocumentRegistryImpl::Release(std::string_view tenant, const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  MutexLock lock(write_mutex_);
  const StatusOr<Document> row = ReadDocument(tenant, name);
  if (!IsDataLoss(row.status())) QUIRE_RETURN_IF_ERROR(row.status());
  if (row.ok() && row->state != DocumentState::kReady) return NoSuchDocument(name);
  return DeleteRowsOf(tenant, {name}, {.has_events = false}, /*keep_segments=*/false, &released_)
      .status();
}

StatusOr<DocumentRegistry::HeldNamesPage> DocumentRegistryImpl::HeldNames(std::string_view after,
                                                                          uint32_t limit) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> rows,
                         metadata_->Scan(AllLatestPrefix(), after, limit));
  HeldNamesPage page;
  for (const MetadataEntry& row : rows) {
    if (auto held = ParseLatestKey(row.key)) {
      page.names.emplace_back(std::move(held->tenant), std::move(held->name));
    }
  }
  if (rows.size() == limit && limit > 0) page.next = rows.back().key;
  return page;
}

}  // namespace quire::kvserver
