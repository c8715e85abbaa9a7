// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/lru.h"

#include "kvserver/store/policy/eviction/victim_order.h"

namespace quire::kvserver {

void Lru::Insert(const NewExtent& extent) {
  where_[extent.id] = {.position = order_.insert(order_.end(), extent.id)};
}

void Lru::Touch(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return;
  Place& place = it->second;
  order_.splice(order_.end(), place.aside ? aside_ : order_, place.position);
  place.aside = false;
}

void Lru::Remove(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return;
  (it->second.aside ? aside_ : order_).erase(it->second.position);
  where_.erase(it);
}

std::optional<ExtentId> Lru::Victim(const Evictable& evictable) {
  AskSomeAgain();
  while (!order_.empty()) {
    const ExtentId& id = order_.front();
    if (evictable(id)) return id;
    where_.at(id).aside = true;
    aside_.splice(aside_.end(), order_, order_.begin());
  }
  for (const ExtentId& id : aside_) {
    if (evictable(id)) return id;
  }
  return std::nullopt;
}

void Lru::AskSomeAgain() {
  const auto coldest = order_.begin();
  for (int i = 0; i < kAskedAgain && !aside_.empty(); ++i) {
    where_.at(aside_.front()).aside = false;
    order_.splice(coldest, aside_, aside_.begin());
  }
}

}  // namespace quire::kvserver
