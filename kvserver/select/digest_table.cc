// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_table.h"

namespace quire::kvserver {

ResidentBytes DigestTable::Share(std::string_view tenant, const ExtentId& id) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(Key{std::string(tenant), id});
  if (it == entries_.end()) return nullptr;
  ++it->second.holders;
  return it->second.bytes;
}

bool DigestTable::Promise(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (bytes > max_bytes_ - used_bytes_) return false;
  used_bytes_ += bytes;
  return true;
}

void DigestTable::Withdraw(uint64_t bytes) {
  MutexLock lock(mutex_);
  used_bytes_ -= bytes;
}

ResidentBytes DigestTable::Add(std::string_view tenant, const ExtentId& id, ResidentBytes bytes) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[Key{std::string(tenant), id}];
  if (entry.holders++ == 0) {
    entry.bytes = std::move(bytes);
  } else {
    used_bytes_ -= bytes->size();
  }
  return entry.bytes;
}

void DigestTable::Release(std::string_view tenant, const ExtentId& id) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(Key{std::string(tenant), id});
  if (it == entries_.end() || --it->second.holders > 0) return;
  used_bytes_ -= it->second.bytes->size();
  entries_.erase(it);
}

uint64_t DigestTable::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

}  // namespace quire::kvserver
