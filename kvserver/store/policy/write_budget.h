// SPDX-License-Identifier: Apache-2.0
//
// WriteBudget: admits to SSD at most a budget of bytes per second, which saves flash and protects
// reads. A token bucket that fills at the budget's rate up to `burst_bytes` and starts full. A
// write is admitted when the bucket holds its bytes. Writes that must persist are always admitted
// and also charged. The bucket then goes into debt, at most `burst_bytes`, so a flood of them
// blocks others for a bounded time only.
//
// Any `t` seconds admit at most `burst_bytes + bytes_per_second * t` bytes of writes that need not
// persist. One larger than `burst_bytes` is never admitted.
#ifndef QUIRE_KVSERVER_STORE_POLICY_WRITE_BUDGET_H_
#define QUIRE_KVSERVER_STORE_POLICY_WRITE_BUDGET_H_

#include <optional>

#include "kvserver/store/policy/admission_policy.h"

namespace quire::kvserver {

class WriteBudget final : public AdmissionPolicy {
 public:
  struct Options {
    uint64_t bytes_per_second = 0;  ///< 0: only writes that must persist are admitted.
    uint64_t burst_bytes = 0;
  };
  explicit WriteBudget(const Options& options);
  bool Admit(const SsdWrite& write, TimePoint now) override;

 private:
  void Fill(TimePoint now);

  // Doubles: exact for whole bytes below 2^53, and products cannot overflow.
  const double bytes_per_second_;
  const double burst_bytes_;
  double available_bytes_;
  std::optional<TimePoint> filled_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_WRITE_BUDGET_H_
