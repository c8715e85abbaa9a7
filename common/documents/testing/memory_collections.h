// SPDX-License-Identifier: Apache-2.0
//
// MemoryCollections: settings of collections in memory, for tests of servers that share them.
// Thread-safety: none.
#ifndef QUIRE_COMMON_DOCUMENTS_TESTING_MEMORY_COLLECTIONS_H_
#define QUIRE_COMMON_DOCUMENTS_TESTING_MEMORY_COLLECTIONS_H_

#include <map>
#include <string>
#include <utility>

#include "common/documents/agreed_changes.h"
#include "common/documents/collection_agreement.h"

namespace quire::testing {

class MemoryCollections final : public CollectionAgreement {
 public:
  StatusOr<AgreedCollections> ChangedSince(uint64_t revision) override {
    if (is_away) return Unavailable("the agreement is away");
    AgreedCollections all{.changed = {}, .revision = revision_};
    for (const auto& [key, entry] : entries_) {
      if (entry.first > revision) all.changed.push_back({key.first, entry.second});
    }
    return all;
  }
  StatusOr<Collection> Change(std::string_view tenant, const std::string& collection,
                              const CollectionChange& change) override {
    if (is_away) return Unavailable("the agreement is away");
    auto& [revision, settings] = entries_[{std::string(tenant), collection}];
    settings.name = collection;
    settings = WithChange(std::move(settings), change);
    revision = ++revision_;
    return settings;
  }

  bool is_away = false;

 private:
  std::map<std::pair<std::string, std::string>, std::pair<uint64_t, Collection>> entries_;
  uint64_t revision_ = 1;
};

}  // namespace quire::testing

#endif  // QUIRE_COMMON_DOCUMENTS_TESTING_MEMORY_COLLECTIONS_H_
