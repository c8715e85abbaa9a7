// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: expiry and removal of documents.
#include <optional>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {
namespace {

/// Pause between slices in which a waiting writer gets the lock.
constexpr Duration kBetweenSlices = std::chrono::microseconds(500);
constexpr int64_t kExpiryRetryMicros = 60'000'000;
/// Stay of a FAILED version.
constexpr uint64_t kFailedSeconds = 86'400;

}  // namespace

Status DocumentRegistryImpl::BuildIndex() {
  MutexLock lock(write_mutex_);
  QUIRE_RETURN_IF_ERROR(collections_.Load(
      [&](std::string_view tenant, std::string_view collection, const CollectionSettings& settings)
          QUIRE_REQUIRES(write_mutex_) {
            expiries_.SetCollection(tenant, collection, settings.ttl_seconds);
          }));
  return ForEachEntry(*metadata_, AllDocumentsPrefix(),
                      [&](const MetadataEntry& entry) QUIRE_REQUIRES(write_mutex_) {
                        const auto key = ParseDocumentKey(entry.key);
                        if (!key) return;
                        const StatusOr<Document> document = DecodeDocument(key->name, entry.value);
                        if (!document.ok()) return;
                        Schedule(key->tenant, *document);
                        tags_.Add(key->tenant, document->tags);
                      });
}

int64_t DocumentRegistryImpl::ExpiryIn(const CollectionSettings& settings,
                                       const Document& document) {
  switch (document.state) {
    case DocumentState::kIngesting:
      return 0;  // Its lease ends it.
    case DocumentState::kFailed:
      return ExpiryOf(document.created_unix_micros, kFailedSeconds);
    default:
      return ExpiryOf(document.created_unix_micros,
                      document.ttl_seconds ? document.ttl_seconds : settings.ttl_seconds);
  }
}

StatusOr<int64_t> DocumentRegistryImpl::ExpiryOfDocument(std::string_view tenant,
                                                         const Document& document) {
  CollectionSettings settings;
  if (!document.ttl_seconds) {
    QUIRE_ASSIGN_OR_RETURN(settings, collections_.Get(tenant, document.name.collection));
  }
  return ExpiryIn(settings, document);
}

void DocumentRegistryImpl::Schedule(std::string_view tenant, const Document& document) {
  if (document.state == DocumentState::kReady) {
    expiries_.Add(tenant, document);
  } else if (document.state == DocumentState::kFailed) {
    expiries_.AddAt(tenant, document.name, ExpiryIn({}, document));
  }
}

bool DocumentRegistryImpl::HasExpired(const Document& document) const {
  return document.expires_unix_micros != 0 && document.expires_unix_micros <= clock_->UnixMicros();
}

StatusOr<DocumentRegistry::ExpiryResult> DocumentRegistryImpl::RemoveExpired() {
  ExpiryResult result;
  for (;;) {
    std::vector<TenantDocument> due = PopDue();
    if (due.empty()) break;
    std::map<std::string, AgreedName> agreed;
    Status status = agreement_ == nullptr ? OkStatus() : WithdrawDue(&due, &agreed);
    status.Update(ExpireSlice(due, std::move(agreed), &result));
    QUIRE_RETURN_IF_ERROR(status);
    clock_->Sleep(kBetweenSlices);
  }
  // Some wait for their holders.
  if (orphans_pending_.load(std::memory_order_relaxed) > 0) {
    QUIRE_RETURN_IF_ERROR(RemoveOrphans().status());
  }
  return result;
}

std::vector<TenantDocument> DocumentRegistryImpl::PopDue() {
  MutexLock lock(write_mutex_);
  return expiries_.PopExpired(clock_->UnixMicros(), Deletion::kMostDocuments);
}

Status DocumentRegistryImpl::ExpireSlice(const std::vector<TenantDocument>& due,
                                         std::map<std::string, AgreedName> agreed,
                                         ExpiryResult* result) {
  MutexLock lock(write_mutex_);
  const int64_t now = clock_->UnixMicros();
  Deletion deletion{.why = DocumentEventKind::kExpired, .agreed = std::move(agreed)};
  Status first_failure;
  for (const TenantDocument& document : due) {
    if (deletion.IsFull()) {
      expiries_.AddAt(document.tenant, document.name, now);  // For the next slice.
      continue;
    }
    const Status added = AddExpired(document, &deletion);
    if (added.ok()) continue;
    Postpone(document);
    first_failure.Update(Annotate(added, "expiry of ", Describe(document.name)));
  }
  const StatusOr<Notes> notes = Commit(deletion, /*keep_segments=*/false);
  if (!notes.ok()) {
    for (const Deletion::Entry& entry : deletion.documents) Postpone(entry.document);
    return Annotate(notes.status(), "expiry of ", deletion.documents.size(), " documents");
  }
  expired_.Add(deletion.documents.size());
  result->num_documents += static_cast<uint32_t>(deletion.documents.size());
  const StatusOr<uint32_t> removed = RemoveNoted(*notes);
  if (removed.ok()) result->num_segments += *removed;
  first_failure.Update(removed.status());
  return first_failure;
}

Status DocumentRegistryImpl::AddExpired(const TenantDocument& due, Deletion* deletion) {
  const StatusOr<Document> document = ReadDocument(due.tenant, due.name);
  if (IsNotFound(document.status()) || IsDataLoss(document.status())) return OkStatus();
  QUIRE_RETURN_IF_ERROR(document.status());
  if (!HasExpired(*document)) {
    Schedule(due.tenant, *document);
    return OkStatus();
  }
  return AddTo(due, deletion);
}

void DocumentRegistryImpl::Postpone(const TenantDocument& due) {
  expiries_.AddAt(due.tenant, due.name, clock_->UnixMicros() + kExpiryRetryMicros);
  expiry_failures_.Add();
}

}  // namespace quire::kvserver
