// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_table.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {

bool DigestTable::Hold(std::string_view tenant, std::span<const ResidentId> ids,
                       uint64_t entry_bytes) {
  if (ids.empty()) return true;
  MutexLock lock(mutex_);
  auto it = tenants_.find(tenant);
  uint64_t fresh = ids.size();
  if (it != tenants_.end()) {
    fresh = static_cast<uint64_t>(std::ranges::count_if(
        ids, [&](const ResidentId& id) { return !it->second.entries.contains(id); }));
  }
  const uint64_t used = it == tenants_.end() ? 0 : it->second.used_bytes;
  const uint64_t room =
      std::min(limits_.max_bytes - used_bytes_,
               limits_.max_bytes_per_tenant - std::min(used, limits_.max_bytes_per_tenant));
  if (fresh > 0 && entry_bytes > room / fresh) return false;
  if (it == tenants_.end()) it = tenants_.emplace(std::string(tenant), Tenant()).first;
  for (const ResidentId& id : ids) {
    Entry& entry = it->second.entries[id];
    if (entry.holders++ == 0) entry.charged = entry_bytes;
  }
  it->second.used_bytes += fresh * entry_bytes;
  used_bytes_ += fresh * entry_bytes;
  return true;
}

void DigestTable::Release(std::string_view tenant, std::span<const ResidentId> ids) {
  if (ids.empty()) return;
  MutexLock lock(mutex_);
  const auto it = tenants_.find(tenant);
  for (const ResidentId& id : ids) {
    const auto entry = it->second.entries.find(id);
    if (--entry->second.holders > 0) continue;
    GiveBack(it->second, entry->second.charged);
    it->second.entries.erase(entry);
  }
  if (it->second.entries.empty()) tenants_.erase(it);
}

ResidentBytes DigestTable::Take(std::string_view tenant, const ResidentId& id) {
  MutexLock lock(mutex_);
  Entry& entry = Find(tenant, id);
  while (entry.state == State::kLoading) settled_.Wait(mutex_);
  if (entry.state == State::kWanted) entry.state = State::kLoading;
  return entry.bytes;
}

void DigestTable::Loaded(std::string_view tenant, const ResidentId& id, ResidentBytes bytes) {
  MutexLock lock(mutex_);
  Entry& entry = Find(tenant, id);
  const uint64_t rest = entry.charged - bytes->bytes().size();
  entry.charged = bytes->bytes().size();
  entry.bytes = std::move(bytes);
  entry.state = State::kLoaded;
  if (rest > 0) GiveBack(tenants_.find(tenant)->second, rest);
  settled_.NotifyAll();
}

void DigestTable::Failed(std::string_view tenant, const ResidentId& id) {
  MutexLock lock(mutex_);
  Find(tenant, id).state = State::kWanted;
  settled_.NotifyAll();
}

std::vector<std::weak_ptr<ResidentBlock>> DigestTable::Blocks() const {
  std::vector<std::weak_ptr<ResidentBlock>> blocks;
  MutexLock lock(mutex_);
  for (const auto& [name, tenant] : tenants_) {
    for (const auto& [id, entry] : tenant.entries) {
      if (entry.bytes != nullptr) blocks.emplace_back(entry.bytes);
    }
  }
  return blocks;
}

void DigestTable::Drop(const ResidentBytes& block) {
  block->MarkDamaged();
  MutexLock lock(mutex_);
  const auto tenant = tenants_.find(block->tenant());
  if (tenant == tenants_.end()) return;
  const auto entry = tenant->second.entries.find(block->id());
  if (entry == tenant->second.entries.end() || entry->second.bytes != block) return;
  entry->second.bytes.reset();
  entry->second.state = State::kWanted;
}

DigestTable::Entry& DigestTable::Find(std::string_view tenant, const ResidentId& id) {
  return tenants_.find(tenant)->second.entries.find(id)->second;
}

void DigestTable::GiveBack(Tenant& tenant, uint64_t bytes) {
  tenant.used_bytes -= bytes;
  used_bytes_ -= bytes;
  ++frees_;
}

uint64_t DigestTable::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

uint64_t DigestTable::frees() const {
  MutexLock lock(mutex_);
  return frees_;
}

}  // namespace quire::kvserver
