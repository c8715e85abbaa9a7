// SPDX-License-Identifier: Apache-2.0
//
// AdmissionPolicy: whether an extent is written to SSD or stays in DRAM only. Bookkeeping only: no
// I/O, no clock (time is passed in), no locks. Thread-safety: none; the store calls it under its
// own lock. testing/admission_conformance.h is the test suite that every implementation passes.
#ifndef QUIRE_KVSERVER_STORE_POLICY_ADMISSION_POLICY_H_
#define QUIRE_KVSERVER_STORE_POLICY_ADMISSION_POLICY_H_

#include <cstdint>

#include "quire/clock.h"

namespace quire::kvserver {

struct SsdWrite {
  uint64_t bytes = 0;
  /// The writer was promised that it survives a crash: it is admitted whatever it costs.
  bool must_persist = false;
};

class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;
  /// True: write it to SSD now. False: it stays in DRAM only, and may be offered again later. `now`
  /// does not go back from call to call.
  virtual bool Admit(const SsdWrite& write, TimePoint now) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_ADMISSION_POLICY_H_
