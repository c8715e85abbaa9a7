// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: changes that the servers of a cluster agree on. Each asks the agreement
// without the lock of writers, and then makes the rows what was agreed.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {

StatusOr<AgreedName> DocumentRegistryImpl::Refresh(std::string_view tenant,
                                                   const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, agreement_->Read(tenant, name));
  MutexLock lock(write_mutex_);
  QUIRE_RETURN_IF_ERROR(AlignRows(tenant, name, agreed, std::nullopt).status());
  return agreed;
}

StatusOr<DocumentRegistry::RegisterResult> DocumentRegistryImpl::RegisterAgreed(
    std::string_view tenant, const DocumentName& name, const Registration& registration) {
  QUIRE_RETURN_IF_ERROR(Introduce(tenant, name));
  if (name.version != 0) QUIRE_RETURN_IF_ERROR(WithdrawExpired(tenant, name).status());
  Candidate candidate;
  {
    MutexLock lock(write_mutex_);
    QUIRE_ASSIGN_OR_RETURN(candidate, Prepare(tenant, name, registration));
  }
  Document document = candidate.stored ? *candidate.stored : candidate.document;
  if (document.name.version == 0) {
    QUIRE_ASSIGN_OR_RETURN(const AgreedName reserved, agreement_->Reserve(tenant, name));
    document.name.version = reserved.highest;
  }
  QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed,
                         agreement_->Publish(tenant, document, registration.keep_latest));
  bool is_newest = true;
  {
    MutexLock lock(write_mutex_);
    QUIRE_ASSIGN_OR_RETURN(const LatestVersion known, ReadLatest(tenant, name));
    is_newest = known.revision <= agreed.revision;
    std::vector<NewEvent> events;
    if (!candidate.stored) {
      events.push_back({std::string(tenant), DocumentEventKind::kRegistered, document.name});
      registered_.Add();
    }
    QUIRE_RETURN_IF_ERROR(Settle(tenant, *agreed.Find(document.name.version), *candidate.held.chain,
                                 agreed, std::move(events)));
  }
  // Others may have deleted the version meanwhile.
  if (!is_newest) QUIRE_RETURN_IF_ERROR(Refresh(tenant, name).status());
  QUIRE_ASSIGN_OR_RETURN(document, Get(tenant, document.name));
  return RegisterResult{.document = std::move(document), .existed = candidate.stored.has_value()};
}

StatusOr<DocumentRegistry::DeleteResult> DocumentRegistryImpl::DeleteAgreed(
    std::string_view tenant, const DocumentName& name, DocumentEventKind why, bool keep_segments) {
  QUIRE_RETURN_IF_ERROR(Introduce(tenant, name));
  QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, Refresh(tenant, name));
  QUIRE_ASSIGN_OR_RETURN(std::vector<DocumentName> held, LiveVersions(tenant, name));
  std::set<uint64_t> versions;
  for (const DocumentName& version : held) versions.insert(version.version);
  for (const Document& document : agreed.versions) {
    const uint64_t version = document.name.version;
    if (name.version == 0 || name.version == version) versions.insert(version);
  }
  if (versions.empty()) return NoSuchDocument(name);
  const std::vector<uint64_t> numbers(versions.begin(), versions.end());
  QUIRE_ASSIGN_OR_RETURN(agreed, agreement_->Remove(tenant, name, numbers));
  MutexLock lock(write_mutex_);
  const Deletion kind{.why = why, .agreed = {{LatestKey(tenant, name), agreed}}};
  QUIRE_ASSIGN_OR_RETURN(held, LiveVersions(tenant, name));
  std::erase_if(held, [&](const DocumentName& one) { return !versions.contains(one.version); });
  QUIRE_ASSIGN_OR_RETURN(DeleteResult result,
                         DeleteRowsOf(tenant, held, kind, keep_segments, &deleted_));
  // The versions that are left, and versions that only other servers hold.
  QUIRE_RETURN_IF_ERROR(AlignRows(tenant, name, agreed, std::nullopt).status());
  result.num_documents = static_cast<uint32_t>(versions.size());
  return result;
}

StatusOr<std::optional<AgreedName>> DocumentRegistryImpl::WithdrawExpired(
    std::string_view tenant, const DocumentName& version) {
  const auto is_due = [&]() -> StatusOr<bool> {
    const StatusOr<Document> document = ReadDocument(tenant, version);
    if (IsNotFound(document.status()) || IsDataLoss(document.status())) return false;
    QUIRE_RETURN_IF_ERROR(document.status());
    return HasExpired(*document);
  };
  QUIRE_ASSIGN_OR_RETURN(const bool was_due, is_due());
  if (!was_due) return std::optional<AgreedName>();
  // Its time to live may have been changed by another server.
  QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, Refresh(tenant, version));
  QUIRE_ASSIGN_OR_RETURN(const bool due, is_due());
  if (!due) return std::optional<AgreedName>();
  const StatusOr<Document> document = ReadDocument(tenant, version);
  QUIRE_RETURN_IF_ERROR(document.status());
  const Document* const published = agreed.Find(version.version);
  // A failed ingest here says nothing of a document of that version elsewhere.
  const bool is_other = published != nullptr && (document->state != DocumentState::kReady ||
                                                 document->chain_tip != published->chain_tip);
  if (is_other) return std::optional(agreed);
  const uint64_t number = version.version;
  QUIRE_ASSIGN_OR_RETURN(AgreedName after, agreement_->Remove(tenant, version, {&number, 1}));
  return std::optional(std::move(after));
}

Status DocumentRegistryImpl::WithdrawDue(std::vector<TenantDocument>* due,
                                         std::map<std::string, AgreedName>* agreed) {
  Status first_failure;
  std::vector<TenantDocument> withdrawn;
  for (TenantDocument& document : *due) {
    // Each call would wait for an agreement that is away.
    const bool is_away = IsUnavailable(first_failure);
    auto name = is_away ? first_failure : WithdrawExpired(document.tenant, document.name);
    if (!name.ok()) {
      first_failure.Update(Annotate(name.status(), "expiry of ", Describe(document.name)));
      MutexLock lock(write_mutex_);
      Postpone(document);
      continue;
    }
    if (*name) (*agreed)[LatestKey(document.tenant, document.name)] = **std::move(name);
    withdrawn.push_back(std::move(document));
  }
  due->swap(withdrawn);
  return first_failure;
}

}  // namespace quire::kvserver
