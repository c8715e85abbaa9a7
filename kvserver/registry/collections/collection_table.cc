// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/collections/collection_table.h"

#include <utility>

#include "kvserver/registry/listing/page_token.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {

Status CollectionTable::Load(const Visitor& visit) {
  return ForEachEntry(*metadata_, AllCollectionsPrefix(), [&](const MetadataEntry& entry) {
    const auto key = ParseCollectionKey(entry.key);
    if (!key) return;
    size_.Add();
    const auto settings = DecodeCollection(key->collection, entry.value);
    if (settings.ok()) visit(key->tenant, key->collection, *settings);
  });
}

StatusOr<CollectionSettings> CollectionTable::Get(std::string_view tenant,
                                                  std::string_view collection) {
  const StatusOr<std::string> value = metadata_->Get(CollectionKey(tenant, collection));
  if (IsNotFound(value.status())) return CollectionSettings();
  QUIRE_RETURN_IF_ERROR(value.status());
  return DecodeCollection(collection, *value);
}

StatusOr<CollectionSettings> CollectionTable::Set(std::string_view tenant,
                                                  std::string_view collection,
                                                  const SettingsChange& change) {
  const std::string key = CollectionKey(tenant, collection);
  const StatusOr<std::string> stored = metadata_->Get(key);
  const bool existed = stored.ok();
  if (!existed && !IsNotFound(stored.status())) return stored.status();
  CollectionSettings settings;
  if (existed) {
    const auto decoded = DecodeCollection(collection, *stored);
    if (decoded.ok()) settings = *decoded;
    if (IsFailedPrecondition(decoded.status())) return decoded.status();
  }
  settings = Apply(change, settings);
  const bool remains = !settings.all_default();
  MetadataBatch batch;
  if (existed) {
    batch.ExpectValue(key, *stored);
  } else {
    if (!remains) return settings;
    QUIRE_RETURN_IF_ERROR(CheckRoom(tenant));
    batch.ExpectAbsent(key);
  }
  if (remains) {
    batch.Put(key, EncodeCollection(settings));
  } else {
    batch.Delete(key);
  }
  QUIRE_RETURN_IF_ERROR(metadata_->Apply(batch));
  if (!existed) size_.Add();
  if (!remains) size_.Sub(1);
  return settings;
}

Status CollectionTable::CheckRoom(std::string_view tenant) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                         metadata_->Scan(CollectionsPrefix(tenant), "", kMaxPerTenant));
  if (entries.size() < kMaxPerTenant) return OkStatus();
  return ResourceExhausted("tenant ", tenant, " has settings for ", kMaxPerTenant,
                           " collections already; set another one back to the defaults first");
}

StatusOr<CollectionTable::Page> CollectionTable::List(std::string_view tenant, uint32_t page_size,
                                                      std::string_view page_token) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t limit, CheckPageSize(page_size));
  const std::string prefix = CollectionsPrefix(tenant);
  QUIRE_ASSIGN_OR_RETURN(const std::string after, DecodePageToken(page_token, prefix));
  // One more than the page, to know whether another page follows.
  QUIRE_ASSIGN_OR_RETURN(std::vector<MetadataEntry> entries,
                         metadata_->Scan(prefix, after, limit + 1));
  Page page;
  if (entries.size() > limit) {
    entries.pop_back();
    page.next_page_token = EncodePageToken(entries.back().key);
  }
  for (const MetadataEntry& entry : entries) {
    auto key = ParseCollectionKey(entry.key);
    if (!key) return DataLoss("the registry holds a malformed key; restore it from a backup");
    QUIRE_ASSIGN_OR_RETURN(const CollectionSettings settings,
                           DecodeCollection(key->collection, entry.value));
    page.entries.push_back({std::move(key->collection), settings});
  }
  return page;
}

}  // namespace quire::kvserver
