// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "kvserver/store/policy/testing/admission_conformance.h"
#include "kvserver/store/policy/write_budget.h"

namespace quire::kvserver::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

MakeAdmission Budget(uint64_t bytes_per_second, uint64_t burst_bytes) {
  return [=] {
    return std::make_unique<WriteBudget>(WriteBudget::Options{bytes_per_second, burst_bytes});
  };
}
INSTANTIATE_TEST_SUITE_P(WriteBudget, AdmissionConformanceTest,
                         ::testing::Values(Budget(0, 0), Budget(1000, 100),
                                           Budget(~uint64_t{0}, ~uint64_t{0})));

constexpr TimePoint kStart{seconds(100)};

TEST(WriteBudgetTest, AdmitsABurstAndThenWhatTheRateAllows) {
  WriteBudget budget({.bytes_per_second = 1000, .burst_bytes = 500});
  EXPECT_TRUE(budget.Admit({.bytes = 400}, kStart));
  EXPECT_FALSE(budget.Admit({.bytes = 200}, kStart)) << "100 are left";
  EXPECT_TRUE(budget.Admit({.bytes = 100}, kStart));
  EXPECT_FALSE(budget.Admit({.bytes = 200}, kStart + milliseconds(199)));
  EXPECT_TRUE(budget.Admit({.bytes = 200}, kStart + milliseconds(200)));
  EXPECT_FALSE(budget.Admit({.bytes = 501}, kStart + seconds(60))) << "no more than the burst";
  EXPECT_TRUE(budget.Admit({.bytes = 500}, kStart + seconds(60)));
}

TEST(WriteBudgetTest, WhatMustPersistIsPaidForAndItsDebtIsBounded) {
  WriteBudget budget({.bytes_per_second = 1000, .burst_bytes = 500});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(budget.Admit({.bytes = 1000, .must_persist = true}, kStart));
  }
  // A debt of 500, not 99500: half a second to zero, another tenth for 100 bytes.
  EXPECT_FALSE(budget.Admit({.bytes = 100}, kStart + milliseconds(599)));
  EXPECT_TRUE(budget.Admit({.bytes = 100}, kStart + milliseconds(600)));
}

TEST(WriteBudgetTest, WithoutABudgetOnlyWhatMustPersistIsAdmitted) {
  WriteBudget budget({});
  EXPECT_FALSE(budget.Admit({.bytes = 1}, kStart));
  EXPECT_FALSE(budget.Admit({.bytes = 1}, kStart + seconds(1000)));
  EXPECT_TRUE(budget.Admit({.bytes = 1, .must_persist = true}, kStart));
}

// Property: any window admits at most burst + rate * its length.
TEST(WriteBudgetTest, InNoWindowOfTimeIsMoreAdmittedThanTheBudgetAllows) {
  constexpr uint64_t kRate = 1000000, kBurst = 5000, kSeed = 17;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  WriteBudget budget({.bytes_per_second = kRate, .burst_bytes = kBurst});
  SeededRandom random(kSeed);
  struct Admitted {
    double seconds;
    double total_bytes_before;
  };
  std::vector<Admitted> admitted;
  double total = 0;
  TimePoint now = kStart;
  for (int i = 0; i < 3000; ++i) {
    now += Duration(random.Below(2000000));
    const uint64_t bytes = random.Below(2 * kBurst);
    if (!budget.Admit({.bytes = bytes}, now)) continue;
    const double at = std::chrono::duration<double>(now - kStart).count();
    admitted.push_back({at, total});
    total += static_cast<double>(bytes);
    for (const Admitted& since : admitted) {
      ASSERT_LE(total - since.total_bytes_before, kBurst + kRate * (at - since.seconds) + 1e-3);
    }
  }
  EXPECT_GT(admitted.size(), 300u);
}

}  // namespace
}  // namespace quire::kvserver::testing
