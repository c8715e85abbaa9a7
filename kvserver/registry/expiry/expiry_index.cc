// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/expiry/expiry_index.h"

#include <utility>

namespace quire::kvserver {
namespace {

TtlIndex::Name NameOf(std::string_view tenant, const DocumentName& name) {
  return {CollectionPrefix(tenant, name.collection), DocumentKey(tenant, name)};
}

std::optional<int64_t> Micros(std::optional<uint64_t> ttl_seconds) {
  if (!ttl_seconds) return std::nullopt;
  return static_cast<int64_t>(*ttl_seconds * 1'000'000);
}

}  // namespace

void ExpiryIndex::SetCollection(std::string_view tenant, std::string_view collection,
                                std::optional<uint64_t> ttl_seconds) {
  index_.SetCollectionTtl(CollectionPrefix(tenant, collection), Micros(ttl_seconds));
}

void ExpiryIndex::Add(std::string_view tenant, const Document& document) {
  index_.Add(NameOf(tenant, document.name), document.created_unix_micros,
             Micros(document.ttl_seconds));
}

void ExpiryIndex::AddAt(std::string_view tenant, const DocumentName& name, int64_t unix_micros) {
  index_.Add(NameOf(tenant, name), unix_micros, 0);
}

void ExpiryIndex::Remove(std::string_view tenant, const DocumentName& name) {
  index_.Remove(NameOf(tenant, name));
}

std::vector<TenantDocument> ExpiryIndex::PopExpired(int64_t now_unix_micros, size_t limit) {
  std::vector<TenantDocument> expired;
  for (const TtlIndex::Name& name : index_.PopExpired(now_unix_micros, limit)) {
    if (auto document = ParseDocumentKey(name.document)) expired.push_back(*std::move(document));
  }
  return expired;
}

}  // namespace quire::kvserver
