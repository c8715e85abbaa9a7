// SPDX-License-Identifier: Apache-2.0
//
// CollectionTable: the settings of collections, kept in a MetadataStore. A collection with only
// defaults has no entry. Thread-safety: Get and List may be called at any time; Set by one thread
// at a time. Ownership: the metadata store outlives it.
#ifndef QUIRE_KVSERVER_REGISTRY_COLLECTIONS_COLLECTION_TABLE_H_
#define QUIRE_KVSERVER_REGISTRY_COLLECTIONS_COLLECTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "kvserver/registry/collections/collection_settings.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "quire/status.h"

namespace quire::kvserver {

class CollectionTable {
 public:
  static constexpr uint32_t kMaxPerTenant = MetadataStore::kMaxScanEntries;

  explicit CollectionTable(MetadataStore* metadata) : metadata_(metadata) {}

  /// Reads every entry once and passes it to `visit`, except damaged ones. Call it before every
  /// other method.
  using Visitor = std::function<void(std::string_view tenant, std::string_view collection,
                                     const CollectionSettings& settings)>;
  [[nodiscard]] Status Load(const Visitor& visit);

  /// Returns all defaults for a collection that was never set. REQUIRES: a valid name, here and
  /// below.
  [[nodiscard]] StatusOr<CollectionSettings> Get(std::string_view tenant,
                                                 std::string_view collection);
  /// Changes settings durably. RESOURCE_EXHAUSTED when the tenant has kMaxPerTenant others. Damaged
  /// settings count as defaults.
  [[nodiscard]] StatusOr<CollectionSettings> Set(std::string_view tenant,
                                                 std::string_view collection,
                                                 const SettingsChange& change);

  struct Entry {
    std::string collection;
    CollectionSettings settings;
  };
  struct Page {
    std::vector<Entry> entries;
    std::string next_page_token;
  };
  /// The tenant's entries in order of names. Parameters as DocumentRegistry::List.
  [[nodiscard]] StatusOr<Page> List(std::string_view tenant, uint32_t page_size,
                                    std::string_view page_token);

  /// Entries of all tenants.
  uint64_t size() const { return size_.Get(); }

 private:
  [[nodiscard]] Status CheckRoom(std::string_view tenant);

  MetadataStore* const metadata_;
  Counter size_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_COLLECTIONS_COLLECTION_TABLE_H_
