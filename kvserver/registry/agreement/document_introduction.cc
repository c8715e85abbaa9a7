// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: documents from before the server had an agreement become the cluster's. A
// name whose row has no revision was never agreed. Its versions are published before anything else
// happens to it.
#include <utility>

#include "common/base/observe/log.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kIntroducedAtOnce = 256;

}  // namespace

Status DocumentRegistryImpl::Introduce(std::string_view tenant, const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion from, ReadLatest(tenant, name));
  if (from.highest == 0 || from.revision != 0) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> versions, Versions(tenant, name));
  for (const DocumentName& version : versions) {
    const StatusOr<Document> document = ReadReady(tenant, version);
    if (!document.ok()) continue;  // An ingest, or gone.
    const Status published = agreement_->Publish(tenant, *document, /*keep_latest=*/true).status();
    if (published.code() != StatusCode::kAlreadyExists) {
      QUIRE_RETURN_IF_ERROR(published);
      continue;
    }
    LogWarning("document_gives_way",
               {{"tenant", std::string(tenant)},
                {"document", Describe(version)},
                {"why", "the cluster has another document of this name and version"}});
  }
  DocumentName latest = name;
  latest.version = from.latest;
  if (from.latest != 0) {
    const Status moved = agreement_->MoveLatest(tenant, latest).status();
    if (!IsNotFound(moved)) QUIRE_RETURN_IF_ERROR(moved);
  }
  QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, agreement_->Read(tenant, name));
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const LatestVersion known, ReadLatest(tenant, name));
  MetadataBatch batch;
  std::vector<NewEvent> unheard;
  MoveLatest(tenant, name, known, NewerOf(known, agreed), &batch, &unheard);
  QUIRE_RETURN_IF_ERROR(metadata_->Apply(batch));
  return AlignRows(tenant, name, agreed, std::nullopt).status();
}

Status DocumentRegistryImpl::IntroduceAll() {
  if (agreement_ == nullptr || introduced_.load(std::memory_order_relaxed)) return OkStatus();
  std::string after;
  do {
    QUIRE_ASSIGN_OR_RETURN(const HeldNamesPage page, HeldNames(after, kIntroducedAtOnce));
    for (const auto& [tenant, name] : page.names) {
      QUIRE_RETURN_IF_ERROR(Introduce(tenant, name));
    }
    after = page.next;
  } while (!after.empty());
  introduced_.store(true, std::memory_order_relaxed);
  return OkStatus();
}

}  // namespace quire::kvserver
