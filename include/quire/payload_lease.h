// SPDX-License-Identifier: Apache-2.0
//
// PayloadLease: the bytes of a payload lie in memory of somebody else, who lends them for a time
// and may use it for something else afterwards. Who reads them asks afterwards whether they were
// good the whole time. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_PAYLOAD_LEASE_H_
#define QUIRE_PAYLOAD_LEASE_H_

#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

class PayloadLease {
 public:
  virtual ~PayloadLease() = default;
  /// How long the bytes are lent, from the moment at which they were sent, or the lease renewed.
  virtual Duration duration() const = 0;
  /// Whether the bytes are as they came. True after a use means that it saw the right bytes: a
  /// lender tells that a lease has ended before the memory is used again. False stays false. Costs
  /// a system call at most.
  virtual bool StillGood() = 0;
  /// The bytes are lent for duration() from now on; waits for the lender's word.
  /// FAILED_PRECONDITION when the lease has ended or the lender refuses; DEADLINE_EXCEEDED when it
  /// does not answer within `timeout`.
  [[nodiscard]] virtual Status Renew(Duration timeout) = 0;
};

}  // namespace quire

#endif  // QUIRE_PAYLOAD_LEASE_H_
