// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/lru.h"

namespace quire::kvserver {

void Lru::Insert(const ExtentId& id, uint64_t) { where_[id] = order_.insert(order_.end(), id); }

void Lru::Touch(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it != where_.end()) order_.splice(order_.end(), order_, it->second);
}

void Lru::Remove(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return;
  order_.erase(it->second);
  where_.erase(it);
}

std::optional<ExtentId> Lru::Victim(const std::function<bool(const ExtentId&)>& evictable) const {
  for (const ExtentId& id : order_) {
    if (evictable(id)) return id;
  }
  return std::nullopt;
}

}  // namespace quire::kvserver
