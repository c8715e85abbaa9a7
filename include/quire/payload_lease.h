// SPDX-License-Identifier: Apache-2.0
//
// PayloadLease: a loan of payload bytes in a lender's memory, for a limited time. The lender may
// reuse the memory afterwards. A reader checks IsValid after its last read. Thread-safety: all
// methods may be called concurrently.
#ifndef QUIRE_PAYLOAD_LEASE_H_
#define QUIRE_PAYLOAD_LEASE_H_

#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

class PayloadLease {
 public:
  virtual ~PayloadLease() = default;
  /// Length of the loan, from the send or the last renewal on.
  virtual Duration duration() const = 0;
  /// True when the bytes are unchanged. True after a read means that it saw the right bytes: the
  /// lender ends a lease before it reuses the memory. False stays false. Costs at most one system
  /// call.
  virtual bool IsValid() = 0;
  /// Extends the loan to duration() from now. Waits for the lender's answer. FAILED_PRECONDITION
  /// when the lease has ended or the lender refuses. DEADLINE_EXCEEDED when there is no answer
  /// within `timeout`.
  [[nodiscard]] virtual Status Renew(Duration timeout) = 0;
};

}  // namespace quire

#endif  // QUIRE_PAYLOAD_LEASE_H_
