// SPDX-License-Identifier: Apache-2.0
//
// WriteBudget: admits to SSD what a budget of bytes per second allows, so that the flash lasts and
// reads are not drowned in writes. A token bucket: it fills at the budget's rate up to
// `burst_bytes` and starts full; a write is admitted when the bucket holds its bytes. What must
// persist is always admitted and paid for as well: the bucket goes into debt, by `burst_bytes` at
// most, so that a flood of it keeps the others out for a bounded time only.
//
// Hence of the writes that need not persist at most `burst_bytes + bytes_per_second * t` bytes are
// admitted in any `t` seconds, and one larger than `burst_bytes` never is.
#ifndef QUIRE_KVSERVER_STORE_POLICY_WRITE_BUDGET_H_
#define QUIRE_KVSERVER_STORE_POLICY_WRITE_BUDGET_H_

#include <optional>

#include "kvserver/store/policy/admission_policy.h"

namespace quire::kvserver {

class WriteBudget final : public AdmissionPolicy {
 public:
  struct Options {
    uint64_t bytes_per_second = 0;  ///< 0: only what must persist is admitted.
    uint64_t burst_bytes = 0;
  };
  explicit WriteBudget(const Options& options);
  bool Admit(const SsdWrite& write, TimePoint now) override;

 private:
  void Fill(TimePoint now);

  // In doubles: exact for whole bytes below 2^53, and no product can overflow.
  const double bytes_per_second_;
  const double burst_bytes_;
  double available_bytes_;
  std::optional<TimePoint> filled_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_WRITE_BUDGET_H_
