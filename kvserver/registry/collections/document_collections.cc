// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: collections.
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {

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
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const CollectionSettings settings,
                         collections_.Set(tenant, collection, change));
  expiries_.SetCollection(tenant, collection, settings.ttl_seconds);
  return MakeCollection(collection, settings);
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
