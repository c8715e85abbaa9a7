// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: when documents expire, and their removal.
#include <optional>

#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_record.h"
#include "kvserver/registry/document_registry_impl.h"

namespace quire::kvserver {
namespace {

/// Expired documents that are removed while others wait to write.
constexpr size_t kExpiryBatch = 64;
constexpr int64_t kExpiryRetryMicros = 60'000'000;

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
                        if (document.ok()) expiries_.Add(key->tenant, *document);
                      });
}

StatusOr<int64_t> DocumentRegistryImpl::ExpiryOfDocument(std::string_view tenant,
                                                         const Document& document) {
  std::optional<uint64_t> ttl_seconds = document.ttl_seconds;
  if (!ttl_seconds) {
    QUIRE_ASSIGN_OR_RETURN(const CollectionSettings settings,
                           collections_.Get(tenant, document.name.collection));
    ttl_seconds = settings.ttl_seconds;
  }
  return ExpiryOf(document.created_unix_micros, ttl_seconds);
}

bool DocumentRegistryImpl::HasExpired(const Document& document) const {
  return document.expires_unix_micros != 0 && document.expires_unix_micros <= clock_->UnixMicros();
}

StatusOr<DocumentRegistry::ExpiryResult> DocumentRegistryImpl::RemoveExpired() {
  ExpiryResult result;
  for (;;) {
    MutexLock lock(write_mutex_);
    const auto due = expiries_.PopExpired(clock_->UnixMicros(), kExpiryBatch);
    if (due.empty()) {
      // Some wait for those who hold them.
      if (orphans_pending_.load(std::memory_order_relaxed) > 0) {
        QUIRE_RETURN_IF_ERROR(RemoveOrphansLocked().status());
      }
      return result;
    }
    QUIRE_RETURN_IF_ERROR(ExpireBatch(due, &result));
  }
}

Status DocumentRegistryImpl::ExpireBatch(std::span<const TenantDocument> batch,
                                         ExpiryResult* result) {
  Status first_failure;
  for (const TenantDocument& due : batch) {
    const Status status = Expire(due, result);
    if (status.ok()) continue;
    expiries_.AddAt(due.tenant, due.name, clock_->UnixMicros() + kExpiryRetryMicros);
    expiry_failures_.Add();
    first_failure.Update(Annotate(status, "expiry of ", Describe(due.name)));
  }
  const StatusOr<uint32_t> removed = RemoveOrphansLocked();
  if (removed.ok()) result->num_segments += *removed;
  first_failure.Update(removed.status());
  return first_failure;
}

Status DocumentRegistryImpl::Expire(const TenantDocument& due, ExpiryResult* result) {
  const StatusOr<Document> document = ReadDocument(due.tenant, due.name);
  if (absl::IsNotFound(document.status()) || absl::IsDataLoss(document.status())) return OkStatus();
  QUIRE_RETURN_IF_ERROR(document.status());
  if (!HasExpired(*document)) {
    expiries_.Add(due.tenant, *document);
    return OkStatus();
  }
  QUIRE_RETURN_IF_ERROR(DeleteVersion(due.tenant, due.name, /*keep_segments=*/false));
  expired_.Add();
  ++result->num_documents;
  return OkStatus();
}

}  // namespace quire::kvserver
