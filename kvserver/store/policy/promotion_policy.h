// SPDX-License-Identifier: Apache-2.0
//
// PromotionPolicy: decides if an extent read from SSD is worth a place in DRAM. A single sparse
// read bypasses DRAM. Bookkeeping only: no I/O, no clock, no locks. Every implementation passes
// testing/promotion_conformance.h. Thread-safety: none; PageStore calls it under its own lock.
#ifndef QUIRE_KVSERVER_STORE_POLICY_PROMOTION_POLICY_H_
#define QUIRE_KVSERVER_STORE_POLICY_PROMOTION_POLICY_H_

#include "kvserver/store/unit.h"

namespace quire::kvserver {

class PromotionPolicy {
 public:
  virtual ~PromotionPolicy() = default;
  /// Records one request for units of `id` from SSD, however many. True: promote the extent to DRAM
  /// now.
  virtual bool Touch(const ExtentId& id) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_PROMOTION_POLICY_H_
