// SPDX-License-Identifier: Apache-2.0
//
// AdmissionPolicy: decides if an extent is written to SSD or stays only in DRAM. Bookkeeping only:
// no I/O, no clock (time is passed in), no locks. Thread-safety: none; the store calls it under its
// own lock. Every implementation passes testing/admission_conformance.h.
#ifndef QUIRE_KVSERVER_STORE_POLICY_ADMISSION_POLICY_H_
#define QUIRE_KVSERVER_STORE_POLICY_ADMISSION_POLICY_H_

#include <cstdint>

#include "common/base/clock.h"

namespace quire::kvserver {

struct SsdWrite {
  uint64_t bytes = 0;
  /// The write must survive a crash. It is always admitted.
  bool must_persist = false;
};

class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;
  /// True: write to SSD now. False: keep in DRAM only; the write may be offered again later. `now`
  /// never decreases.
  virtual bool Admit(const SsdWrite& write, TimePoint now) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_ADMISSION_POLICY_H_
