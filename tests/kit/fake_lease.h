// SPDX-License-Identifier: Apache-2.0
//
// FakeLease: a payload's lease that a test ends and renews.
#ifndef QUIRE_TESTS_KIT_FAKE_LEASE_H_
#define QUIRE_TESTS_KIT_FAKE_LEASE_H_

#include <atomic>

#include "quire/payload_lease.h"

namespace quire::testing {

class FakeLease final : public PayloadLease {
 public:
  explicit FakeLease(Duration duration = std::chrono::seconds(60)) : duration_(duration) {}
  Duration duration() const override { return duration_; }
  bool IsValid() override { return uses_left_.fetch_sub(1) > 0; }
  Status Renew(Duration) override { return renewal; }

  /// Ends the lease after `uses` more checks.
  void EndAfter(int uses) { uses_left_ = uses; }
  Status renewal;

 private:
  const Duration duration_;
  std::atomic<int> uses_left_{1 << 30};
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_FAKE_LEASE_H_
