// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: the alias of a name's latest version.
#include <algorithm>
#include <map>
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {

StatusOr<LatestVersion> DocumentRegistryImpl::ReadLatest(std::string_view tenant,
                                                         const DocumentName& name) {
  const StatusOr<std::string> row = metadata_->Get(LatestKey(tenant, name));
  if (IsNotFound(row.status())) return LatestVersion();
  QUIRE_RETURN_IF_ERROR(row.status());
  return DecodeLatest(name, *row);
}

StatusOr<std::optional<Document>> DocumentRegistryImpl::HighestReady(
    std::string_view tenant, const DocumentName& name, const std::set<uint64_t>& without) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, name));
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
    if (without.contains(it->version)) continue;
    StatusOr<Document> document = ReadReady(tenant, *it);
    if (document.ok()) return std::optional<Document>(*std::move(document));
    // An unreadable version is nobody's answer; its own name says so.
    if (!IsNotFound(document.status()) && !IsDataLoss(document.status())) return document.status();
  }
  return std::optional<Document>();
}

void DocumentRegistryImpl::MoveLatest(std::string_view tenant, const DocumentName& name,
                                      const LatestVersion& from, const LatestVersion& to,
                                      MetadataBatch* batch, std::vector<NewEvent>* events) {
  if (to == from) return;
  batch->Put(LatestKey(tenant, name), EncodeLatest(to));
  if (from.latest == 0 || to.latest == 0 || to.latest == from.latest) return;
  events->push_back({std::string(tenant),
                     DocumentEventKind::kLatestMoved,
                     {name.collection, name.name, to.latest}});
}

Status DocumentRegistryImpl::MoveLatestOff(const Deletion& deletion, MetadataBatch* batch,
                                           std::vector<NewEvent>* events) {
  struct Lost {
    const TenantDocument* first = nullptr;
    std::set<uint64_t> versions;
  };
  std::map<std::string, Lost> names;  // By LatestKey.
  for (const Deletion::Entry& entry : deletion.documents) {
    Lost& lost = names[LatestKey(entry.document.tenant, entry.document.name)];
    if (lost.first == nullptr) lost.first = &entry.document;
    lost.versions.insert(entry.document.name.version);
  }
  for (const auto& entry : names) {
    const Lost& lost = entry.second;
    const auto& [tenant, name] = *lost.first;
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, name));
    if (std::ranges::all_of(versions, [&](const DocumentName& version) {
          return lost.versions.contains(version.version);
        })) {
      batch->Delete(entry.first);
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
    if (agreement_ != nullptr) {
      const auto agreed = deletion.agreed.find(entry.first);
      if (agreed == deletion.agreed.end()) continue;
      MoveLatest(tenant, name, from, NewerOf(from, agreed->second), batch, events);
      continue;
    }
    if (!lost.versions.contains(from.latest)) continue;
    QUIRE_ASSIGN_OR_RETURN(const auto highest, HighestReady(tenant, name, lost.versions));
    const uint64_t latest = highest ? highest->name.version : 0;
    MoveLatest(tenant, name, from, {.latest = latest, .highest = from.highest}, batch, events);
  }
  return OkStatus();
}

StatusOr<Document> DocumentRegistryImpl::SetLatest(std::string_view tenant,
                                                   const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckDocumentName(name));
  if (agreement_ != nullptr) {
    QUIRE_RETURN_IF_ERROR(Introduce(tenant, name));
    QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, agreement_->MoveLatest(tenant, name));
    MutexLock lock(write_mutex_);
    QUIRE_RETURN_IF_ERROR(AlignRows(tenant, name, agreed, std::vector<NewEvent>()).status());
    const StatusOr<Document> held = ReadReady(tenant, name);
    return Completed(tenant, held.ok() ? *held : *agreed.Find(name.version));
  }
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Document document, ReadReady(tenant, name));
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  MetadataBatch batch;
  std::vector<NewEvent> events;
  MoveLatest(tenant, name, from,
             {.latest = name.version, .highest = std::max(from.highest, name.version)}, &batch,
             &events);
  QUIRE_RETURN_IF_ERROR(events_.Apply(std::move(batch), events));
  Complete(tenant, name.version, &document);
  return document;
}

}  // namespace quire::kvserver
