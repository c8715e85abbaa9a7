// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: ingests. A reserved version has its document's row in state INGESTING and a
// row with the ingest's number. Registration replaces both in one batch, so a crash leaves either
// nothing visible or the whole document.
#include <algorithm>
#include <utility>

#include "common/documents/document_rules.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {

StatusOr<DocumentRegistry::BegunIngest> DocumentRegistryImpl::BeginIngest(std::string_view tenant,
                                                                          const DocumentName& name,
                                                                          const IngestPlan& plan) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  if (name.version != 0) {
    return InvalidArgument("an ingest takes the next version; name version 0, not ", name.version);
  }
  QUIRE_RETURN_IF_ERROR(CheckSaid(plan.content_hash, plan.source, plan.tags, plan.ttl_seconds));
  if (agreement_ != nullptr) return BeginAgreedIngest(tenant, name, plan);
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(auto unchanged, FindUnchanged(tenant, name, plan));
  if (unchanged) return *std::move(unchanged);
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  const uint64_t version = from.highest + 1;
  return ReserveVersion(tenant, {name.collection, name.name, version}, plan,
                        {.latest = from.latest, .highest = version});
}

StatusOr<DocumentRegistry::BegunIngest> DocumentRegistryImpl::BeginAgreedIngest(
    std::string_view tenant, const DocumentName& name, const IngestPlan& plan) {
  QUIRE_RETURN_IF_ERROR(Introduce(tenant, name));
  {
    MutexLock lock(write_mutex_);
    QUIRE_ASSIGN_OR_RETURN(auto unchanged, FindUnchanged(tenant, name, plan));
    if (unchanged) return *std::move(unchanged);
  }
  QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, agreement_->Reserve(tenant, name));
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  return ReserveVersion(tenant, {name.collection, name.name, agreed.highest}, plan,
                        NewerOf(from, agreed));
}

StatusOr<std::optional<DocumentRegistry::BegunIngest>> DocumentRegistryImpl::FindUnchanged(
    std::string_view tenant, const DocumentName& name, const IngestPlan& plan) {
  if (!plan.content_hash.empty()) {
    StatusOr<Document> latest = Get(tenant, name);
    if (latest.ok() && latest->content_hash == plan.content_hash && latest->segments_lost == 0) {
      return std::optional(BegunIngest{.document = *std::move(latest), .unchanged = true});
    }
  }
  if (ingests_.HasRoom(tenant)) return std::optional<BegunIngest>();
  return ResourceExhausted("tenant ", tenant, " has ", IngestLeases::kMaxPerTenant,
                           " ingests under way; end some first");
}

StatusOr<DocumentRegistry::BegunIngest> DocumentRegistryImpl::ReserveVersion(
    std::string_view tenant, const DocumentName& version, const IngestPlan& plan,
    const LatestVersion& to) {
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, version));
  BegunIngest begun{.document = {}, .id = ingests_.NewId()};
  Document& document = begun.document;
  document.name = version;
  document.state = DocumentState::kIngesting;
  document.created_unix_micros = clock_->UnixMicros();
  document.content_hash = plan.content_hash;
  document.source = plan.source;
  document.tags = plan.tags;
  document.ttl_seconds = plan.ttl_seconds;
  MetadataBatch batch;
  batch.ExpectAbsent(DocumentKey(tenant, document.name));
  batch.Put(DocumentKey(tenant, document.name), EncodeDocument(document));
  batch.Put(CreatedKey(tenant, document.created_unix_micros, document.name), "");
  batch.Put(IngestKey(tenant, document.name), HexOf(begun.id));
  std::vector<NewEvent> events = {
      {std::string(tenant), DocumentEventKind::kIngestBegan, document.name}};
  MoveLatest(tenant, version, from, to, &batch, &events);
  QUIRE_RETURN_IF_ERROR(events_.Apply(std::move(batch), events));
  ingests_.Add(begun.id, {std::string(tenant), document.name});
  tags_.Add(tenant, document.tags);
  return begun;
}

StatusOr<Document> DocumentRegistryImpl::Fail(std::string_view tenant, const DocumentName& name,
                                              std::string_view reason) {
  QUIRE_ASSIGN_OR_RETURN(Document document, ReadDocument(tenant, name));
  MetadataBatch batch;
  batch.Delete(IngestKey(tenant, name));
  batch.Delete(CreatedKey(tenant, document.created_unix_micros, name));
  document.state = DocumentState::kFailed;
  document.failure = reason;
  // Its day begins now.
  document.created_unix_micros = clock_->UnixMicros();
  batch.Put(CreatedKey(tenant, document.created_unix_micros, name), "");
  batch.Put(DocumentKey(tenant, name), EncodeDocument(document));
  const std::vector<NewEvent> events = {
      {std::string(tenant), DocumentEventKind::kFailed, name, std::string(reason)}};
  QUIRE_RETURN_IF_ERROR(events_.Apply(std::move(batch), events));
  ingests_.Remove(tenant, name);
  ingests_failed_.Add();
  QUIRE_ASSIGN_OR_RETURN(document.expires_unix_micros, ExpiryOfDocument(tenant, document));
  Schedule(tenant, document);
  return document;
}

StatusOr<Document> DocumentRegistryImpl::FailIngest(std::string_view tenant, uint64_t ingest_id,
                                                    std::string_view reason) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckFailure(reason));
  MutexLock lock(write_mutex_);
  const auto name = ingests_.Find(tenant, ingest_id);
  if (!name) return NotFound("ingest ", ingest_id, " has ended; there is nothing to fail");
  return Fail(tenant, *name, reason);
}

std::vector<uint64_t> DocumentRegistryImpl::RenewIngests(std::string_view tenant,
                                                         std::span<const uint64_t> ids) {
  return ingests_.Renew(tenant, ids);
}

StatusOr<uint32_t> DocumentRegistryImpl::FailAbandonedIngests() {
  uint32_t failed = 0;
  for (const TenantDocument& abandoned : ingests_.Abandoned()) {
    MutexLock lock(write_mutex_);
    const StatusOr<Document> document = Fail(abandoned.tenant, abandoned.name,
                                             "the ingest ended before it was complete: its lease "
                                             "was not renewed");
    if (IsNotFound(document.status()) || IsDataLoss(document.status())) {
      ingests_.Remove(abandoned.tenant, abandoned.name);
      continue;
    }
    QUIRE_RETURN_IF_ERROR(document.status());
    ++failed;
  }
  return failed;
}

}  // namespace quire::kvserver
