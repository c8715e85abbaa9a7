// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/tag_census.h"

namespace quire::kvserver {

void TagCensus::Add(std::string_view tenant, const Tags& tags) {
  if (tags.empty()) return;
  MutexLock lock(mutex_);
  Counts& counts = tenants_[std::string(tenant)];
  for (const auto& [key, value] : tags) ++counts[key];
}

void TagCensus::Remove(std::string_view tenant, const Tags& tags) {
  MutexLock lock(mutex_);
  const auto counts = tenants_.find(tenant);
  if (counts == tenants_.end()) return;
  for (const auto& [key, value] : tags) {
    const auto count = counts->second.find(key);
    if (count != counts->second.end() && --count->second == 0) counts->second.erase(count);
  }
}

bool TagCensus::Has(std::string_view tenant, std::string_view key) const {
  MutexLock lock(mutex_);
  const auto counts = tenants_.find(tenant);
  return counts != tenants_.end() && counts->second.contains(key);
}

std::vector<std::string> TagCensus::Keys(std::string_view tenant, size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<std::string> keys;
  const auto counts = tenants_.find(tenant);
  if (counts == tenants_.end()) return keys;
  for (const auto& [key, count] : counts->second) {
    if (keys.size() == limit) break;
    keys.push_back(key);
  }
  return keys;
}

}  // namespace quire::kvserver
