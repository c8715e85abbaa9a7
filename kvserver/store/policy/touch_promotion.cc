// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/touch_promotion.h"

namespace quire::kvserver {

bool TouchPromotion::Touch(const ExtentId& id) {
  if (touches_ <= 1) return true;
  const auto [it, added] = entries_.try_emplace(id);
  Entry& entry = it->second;
  if (added) {
    entry.position = order_.insert(order_.end(), id);
  } else {
    order_.splice(order_.end(), order_, entry.position);
  }
  if (++entry.touches >= touches_) {
    order_.erase(entry.position);
    entries_.erase(it);
    return true;
  }
  if (entries_.size() > capacity_) {
    entries_.erase(order_.front());
    order_.pop_front();
  }
  return false;
}

}  // namespace quire::kvserver
