// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: collections.
#include <set>
#include <utility>

#include "common/base/observe/log.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {
namespace {

/// Pause between looks at the settings of other servers.
constexpr Duration kSettingsPeriod = std::chrono::seconds(10);

/// The change as servers agree on it. Codecs have names there.
CollectionChange Named(const SettingsChange& change) {
  CollectionChange named;
  if (change.codec) named.codec = *change.codec ? Name(**change.codec) : "";
  if (change.ttl_seconds) named.ttl_seconds = change.ttl_seconds->value_or(0);
  return named;
}

}  // namespace

CollectionState DocumentRegistryImpl::MakeCollection(std::string_view name,
                                                     const CollectionSettings& settings) const {
  return {.name = std::string(name),
          .codec = settings.codec.value_or(default_codec_),
          .codec_is_default = !settings.codec,
          .ttl_seconds = settings.ttl_seconds};
}

StatusOr<CollectionState> DocumentRegistryImpl::GetCollection(std::string_view tenant,
                                                              std::string_view collection) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckCollection(collection));
  QUIRE_ASSIGN_OR_RETURN(const CollectionSettings settings, collections_.Get(tenant, collection));
  return MakeCollection(collection, settings);
}

StatusOr<CollectionState> DocumentRegistryImpl::SetCollection(std::string_view tenant,
                                                              std::string_view collection,
                                                              const SettingsChange& change) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckCollection(collection));
  if (change.ttl_seconds && *change.ttl_seconds) {
    QUIRE_RETURN_IF_ERROR(CheckTtl(**change.ttl_seconds));
  }
  if (settings_ != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const Collection agreed,
                           settings_->Change(tenant, std::string(collection), Named(change)));
    MutexLock lock(write_mutex_);
    return TakeSettings(tenant, agreed);
  }
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const CollectionSettings settings,
                         collections_.Set(tenant, collection, change));
  expiries_.SetCollection(tenant, collection, settings.ttl_seconds);
  return MakeCollection(collection, settings);
}

StatusOr<CollectionState> DocumentRegistryImpl::TakeSettings(std::string_view tenant,
                                                             const Collection& agreed) {
  SettingsChange change;
  change.ttl_seconds = agreed.ttl_seconds;
  change.codec.emplace();
  if (!agreed.codec.empty()) {
    QUIRE_ASSIGN_OR_RETURN(change.codec, CodecByName(agreed.codec));
  }
  QUIRE_ASSIGN_OR_RETURN(const CollectionSettings settings,
                         collections_.Set(tenant, agreed.name, change));
  expiries_.SetCollection(tenant, agreed.name, settings.ttl_seconds);
  return MakeCollection(agreed.name, settings);
}

Status DocumentRegistryImpl::FollowSettings() {
  if (settings_ == nullptr) return OkStatus();
  uint64_t since = 0;
  {
    MutexLock lock(write_mutex_);
    if (clock_->Now() < settings_due_) return OkStatus();
    settings_due_ = clock_->Now() + kSettingsPeriod;
    since = settings_revision_;
  }
  QUIRE_ASSIGN_OR_RETURN(const AgreedCollections agreed, settings_->ChangedSince(since));
  if (since == 0) QUIRE_RETURN_IF_ERROR(IntroduceSettings(agreed));
  MutexLock lock(write_mutex_);
  for (const AgreedCollection& collection : agreed.changed) {
    if (!store_->CheckTenant(collection.tenant).ok()) continue;  // Served elsewhere.
    const Status taken = TakeSettings(collection.tenant, collection.settings).status();
    if (taken.ok()) continue;
    LogWarning("collection_not_taken", {{"tenant", collection.tenant},
                                        {"collection", collection.settings.name},
                                        {"why", std::string(Message(taken))}});
  }
  settings_revision_ = agreed.revision;
  return OkStatus();
}

Status DocumentRegistryImpl::IntroduceSettings(const AgreedCollections& known) {
  std::set<std::string> keys;
  for (const AgreedCollection& collection : known.changed) {
    keys.insert(CollectionKey(collection.tenant, collection.settings.name));
  }
  std::vector<MetadataEntry> own;
  QUIRE_RETURN_IF_ERROR(
      ForEachEntry(*metadata_, AllCollectionsPrefix(), [&](const MetadataEntry& entry) {
        if (!keys.contains(entry.key)) own.push_back(entry);
      }));
  for (const MetadataEntry& entry : own) {
    const auto key = ParseCollectionKey(entry.key);
    if (!key) continue;
    const auto settings = DecodeCollection(key->collection, entry.value);
    if (!settings.ok()) continue;  // Damaged; set again by an operator.
    SettingsChange all;
    all.codec = settings->codec;
    all.ttl_seconds = settings->ttl_seconds;
    QUIRE_RETURN_IF_ERROR(settings_->Change(key->tenant, key->collection, Named(all)).status());
  }
  return OkStatus();
}

StatusOr<DocumentRegistry::ListCollectionsResult> DocumentRegistryImpl::ListCollections(
    std::string_view tenant, uint32_t page_size, std::string_view page_token) {
  QUIRE_RETURN_IF_ERROR(store_->CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(CollectionTable::Page page,
                         collections_.List(tenant, page_size, page_token));
  ListCollectionsResult result;
  for (const CollectionTable::Entry& entry : page.entries) {
    result.collections.push_back(MakeCollection(entry.collection, entry.settings));
  }
  result.next_page_token = std::move(page.next_page_token);
  return result;
}

StatusOr<CodecParams> DocumentRegistryImpl::CodecOf(std::string_view tenant,
                                                    std::string_view collection) {
  if (collection.empty()) return default_codec_;
  QUIRE_ASSIGN_OR_RETURN(const CollectionState settings, GetCollection(tenant, collection));
  return settings.codec;
}

}  // namespace quire::kvserver
