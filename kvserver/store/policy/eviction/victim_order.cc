// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/victim_order.h"

namespace quire::kvserver {

const ExtentId* VictimOrder::First(const EvictionPolicy::Evictable& evictable) {
  AskSomeAgain();
  for (auto it = order_.begin(); it != order_.end();) {
    if (evictable(*it->id)) return it->id;
    aside_.insert(order_.extract(it++));
  }
  return nullptr;
}

const ExtentId* VictimOrder::FirstAside(const EvictionPolicy::Evictable& evictable) const {
  for (const Place& place : aside_) {
    if (evictable(*place.id)) return place.id;
  }
  return nullptr;
}

void VictimOrder::AskSomeAgain() {
  auto it = aside_.upper_bound(last_asked_again_);
  for (int i = 0; i < kAskedAgain && !aside_.empty(); ++i) {
    if (it == aside_.end()) it = aside_.begin();
    last_asked_again_ = *it;
    order_.insert(aside_.extract(it++));
  }
}

}  // namespace quire::kvserver
