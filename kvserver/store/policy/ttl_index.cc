// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/ttl_index.h"

#include <limits>
#include <utility>

namespace quire::kvserver {
namespace {

/// A saturating sum: a document that would expire after the end of time never expires.
int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

}  // namespace

void TtlIndex::SetCollectionTtl(std::string_view collection, std::optional<int64_t> ttl_micros) {
  if (ttl_micros) {
    collection_ttl_micros_.insert_or_assign(std::string(collection), *ttl_micros);
  } else if (const auto it = collection_ttl_micros_.find(collection);
             it != collection_ttl_micros_.end()) {
    collection_ttl_micros_.erase(it);
  }
  for (auto it = documents_.lower_bound({std::string(collection), {}});
       it != documents_.end() && it->first.collection == collection; ++it) {
    if (!it->second.own_ttl_micros) Reschedule(it);
  }
}

void TtlIndex::Add(const Name& name, int64_t created_micros, std::optional<int64_t> ttl_micros) {
  const auto it = documents_.try_emplace(name).first;
  it->second.created_micros = created_micros;
  it->second.own_ttl_micros = ttl_micros;
  Reschedule(it);
}

void TtlIndex::Remove(const Name& name) {
  const auto it = documents_.find(name);
  if (it == documents_.end()) return;
  Unschedule(it);
  documents_.erase(it);
}

std::optional<int64_t> TtlIndex::NextExpiry() const {
  if (by_expiry_.empty()) return std::nullopt;
  return by_expiry_.begin()->first;
}

std::vector<TtlIndex::Name> TtlIndex::PopExpired(int64_t now_micros, size_t limit) {
  std::vector<Name> expired;
  while (expired.size() < limit && !by_expiry_.empty() && by_expiry_.begin()->first <= now_micros) {
    expired.push_back(by_expiry_.begin()->second);
    Remove(expired.back());
  }
  return expired;
}

void TtlIndex::Reschedule(Documents::iterator it) {
  Unschedule(it);
  Document& document = it->second;
  std::optional<int64_t> ttl = document.own_ttl_micros;
  if (!ttl) {
    const auto of_collection = collection_ttl_micros_.find(it->first.collection);
    if (of_collection != collection_ttl_micros_.end()) ttl = of_collection->second;
  }
  if (!ttl) return;
  document.expiry_micros = SaturatingAdd(document.created_micros, *ttl);
  by_expiry_.emplace(*document.expiry_micros, it->first);
}

void TtlIndex::Unschedule(Documents::iterator it) {
  if (!it->second.expiry_micros) return;
  by_expiry_.erase({*it->second.expiry_micros, it->first});
  it->second.expiry_micros.reset();
}

}  // namespace quire::kvserver
