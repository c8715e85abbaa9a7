// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: documents that the agreement does not know become the cluster's. A name
// whose row has no revision was never agreed. One whose row shows a revision that a restored backup
// lacks was agreed, and forgotten. Its versions are published before anything else happens to it.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/observe/log.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {
namespace {

/// Names of one turn of the upkeep.
constexpr uint32_t kIntroducedAtOnce = 64;

}  // namespace

bool DocumentRegistryImpl::IsUnknown(const LatestVersion& row) const {
  return row.revision == 0 || (agreement_ != nullptr && agreement_->HasLost(row.revision));
}

Status DocumentRegistryImpl::Introduce(std::string_view tenant, const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(LatestVersion from, ReadLatest(tenant, name));
  if (from.highest == 0 || !IsUnknown(from)) return OkStatus();
  MutexLock one_at_a_time(introduction_mutex_);
  QUIRE_ASSIGN_OR_RETURN(from, ReadLatest(tenant, name));
  if (from.highest == 0 || !IsUnknown(from)) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(std::vector<DocumentName> versions, Versions(tenant, name));
  // The first version of a name that nobody has becomes its latest. An alias that is agreed stays,
  // unless a restored backup set it back.
  const bool is_forgotten = from.revision != 0;
  std::stable_partition(versions.begin(), versions.end(), [&](const DocumentName& version) {
    return version.version == from.latest;
  });
  for (const DocumentName& version : versions) {
    const StatusOr<Document> document = ReadReady(tenant, version);
    if (!document.ok()) continue;  // An ingest, or gone.
    const Status published = PublishHeld(tenant, *document, is_forgotten);
    if (published.code() != StatusCode::kAlreadyExists) {
      QUIRE_RETURN_IF_ERROR(published);
      continue;
    }
    LogWarning("document_gives_way",
               {{"tenant", std::string(tenant)},
                {"document", Describe(version)},
                {"why", "the cluster has another document of this name and version"}});
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

Status DocumentRegistryImpl::PublishHeld(std::string_view tenant, const Document& document,
                                         bool is_forgotten) {
  QUIRE_RETURN_IF_ERROR(
      agreement_->Publish(tenant, document, /*keep_latest=*/!is_forgotten).status());
  // Tags and time to live here are newer than the backup.
  return is_forgotten ? agreement_->Amend(tenant, document).status() : OkStatus();
}

Status DocumentRegistryImpl::IntroduceSome() {
  if (agreement_ == nullptr || introduced_.load(std::memory_order_relaxed)) return OkStatus();
  std::string after;
  {
    MutexLock lock(write_mutex_);
    after = introduced_up_to_;
  }
  QUIRE_ASSIGN_OR_RETURN(const HeldNamesPage page, HeldNames(after, kIntroducedAtOnce));
  Status first_failure;
  for (const auto& [tenant, name] : page.names) {
    const Status introduced = Introduce(tenant, name);
    if (IsUnavailable(introduced)) return introduced;
    first_failure.Update(Annotate(introduced, "publishing ", Describe(name)));
  }
  MutexLock lock(write_mutex_);
  introduced_up_to_ = page.next;
  introduced_.store(page.next.empty(), std::memory_order_relaxed);
  return first_failure;
}

}  // namespace quire::kvserver
