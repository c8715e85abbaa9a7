// SPDX-License-Identifier: Apache-2.0
//
// PromotionPolicy: whether an extent that was read from SSD is worth a place in DRAM. A sparse read
// that comes once is served around DRAM. Bookkeeping only: no I/O, no clock, no locks.
// testing/promotion_conformance.h is the test suite that every implementation passes.
// Thread-safety: none; PageStore calls it under its own lock.
#ifndef QUIRE_KVSERVER_STORE_POLICY_PROMOTION_POLICY_H_
#define QUIRE_KVSERVER_STORE_POLICY_PROMOTION_POLICY_H_

#include "kvserver/store/unit.h"

namespace quire::kvserver {

class PromotionPolicy {
 public:
  virtual ~PromotionPolicy() = default;
  /// One request reads units of `id` from SSD, however many. True: bring the extent to DRAM now.
  virtual bool Touch(const ExtentId& id) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_PROMOTION_POLICY_H_
