// SPDX-License-Identifier: Apache-2.0
//
// TouchPromotion: promotes an extent at its n-th touch, unless it was forgotten in between.
#ifndef QUIRE_KVSERVER_STORE_POLICY_TOUCH_PROMOTION_H_
#define QUIRE_KVSERVER_STORE_POLICY_TOUCH_PROMOTION_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "kvserver/store/policy/promotion_policy.h"

namespace quire::kvserver {

class TouchPromotion final : public PromotionPolicy {
 public:
  /// Promotes at touch number `touches` (1 promotes at once). Remembers at most `capacity` extents
  /// with fewer touches, and forgets the least recently touched first.
  TouchPromotion(uint32_t touches, size_t capacity) : touches_(touches), capacity_(capacity) {}
  bool Touch(const ExtentId& id) override;

 private:
  struct Entry {
    uint32_t touches = 0;
    std::list<ExtentId>::iterator position;
  };
  const uint32_t touches_;
  const size_t capacity_;
  std::list<ExtentId> order_;  // least recently touched first
  std::unordered_map<ExtentId, Entry, ExtentIdHash> entries_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_TOUCH_PROMOTION_H_
