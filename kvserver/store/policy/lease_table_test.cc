// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/random.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using std::chrono::seconds;

constexpr TimePoint At(int64_t second) { return TimePoint(seconds(second)); }

TEST(LeaseTableTest, AnExtentIsHeldUntilItsExpiryAndNotAtIt) {
  LeaseTable leases(10);
  ASSERT_TRUE(leases.Grant(ExtentNumber(1), At(10), At(0)).ok());
  EXPECT_TRUE(leases.IsHeld(ExtentNumber(1), At(10) - Duration(1)));
  EXPECT_FALSE(leases.IsHeld(ExtentNumber(2), At(5) + seconds(4)));
  EXPECT_FALSE(leases.IsHeld(ExtentNumber(1), At(10)));
  EXPECT_EQ(leases.Count(At(10)), 0u);
}

TEST(LeaseTableTest, TellsOfEachLeaseThatEndsHoweverItEndsAndOnce) {
  std::vector<uint32_t> ended;
  LeaseTable leases(10, [&](uint32_t slot) { ended.push_back(slot); });
  const LeaseId released = leases.Grant(ExtentNumber(1), At(10), At(0)).value();
  const LeaseId expired = leases.Grant(ExtentNumber(1), At(5), At(0)).value();
  EXPECT_TRUE(ended.empty());
  leases.EndExpired(At(5));
  EXPECT_EQ(ended, std::vector<uint32_t>{expired.slot});
  ASSERT_TRUE(leases.Release(released, At(6)).ok());
  EXPECT_FALSE(leases.Release(expired, At(7)).ok());
  EXPECT_EQ(ended, (std::vector<uint32_t>{expired.slot, released.slot}));
}

TEST(LeaseTableTest, AnExtentIsHeldAsLongAsAnyOfItsLeases) {
  LeaseTable leases(10);
  const LeaseId longer = leases.Grant(ExtentNumber(1), At(20), At(0)).value();
  ASSERT_TRUE(leases.Grant(ExtentNumber(1), At(10), At(0)).ok());
  EXPECT_TRUE(leases.IsHeld(ExtentNumber(1), At(15)));
  EXPECT_TRUE(leases.Release(longer, At(15)).ok());
  EXPECT_FALSE(leases.IsHeld(ExtentNumber(1), At(15)));
}

TEST(LeaseTableTest, RenewingMovesTheExpiryEitherWay) {
  LeaseTable leases(10);
  const LeaseId lease = leases.Grant(ExtentNumber(1), At(10), At(0)).value();
  ASSERT_TRUE(leases.Renew(lease, At(20), At(9)).ok());
  EXPECT_TRUE(leases.IsHeld(ExtentNumber(1), At(19)));
  ASSERT_TRUE(leases.Renew(lease, At(19) + Duration(1), At(19)).ok());
  EXPECT_FALSE(leases.IsHeld(ExtentNumber(1), At(20)));
}

TEST(LeaseTableTest, ALeaseThatIsOverCannotTouchTheOneThatTookItsSlot) {
  LeaseTable leases(1);
  const LeaseId first = leases.Grant(ExtentNumber(1), At(10), At(0)).value();
  const LeaseId second = leases.Grant(ExtentNumber(2), At(30), At(10)).value();
  EXPECT_EQ(first.slot, second.slot);
  EXPECT_NE(first, second);
  EXPECT_EQ(leases.Release(first, At(11)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(leases.Renew(first, At(90), At(11)).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(leases.IsHeld(ExtentNumber(2), At(29)));
  EXPECT_FALSE(leases.IsHeld(ExtentNumber(2), At(30)));
}

TEST(LeaseTableTest, LeasesThatWereReleasedOrNeverGrantedAreRefused) {
  LeaseTable leases(2);
  const LeaseId lease = leases.Grant(ExtentNumber(1), At(10), At(0)).value();
  EXPECT_TRUE(leases.Release(lease, At(1)).ok());
  EXPECT_EQ(leases.Release(lease, At(1)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(leases.Release({.slot = 7, .generation = 1}, At(1)).code(),
            StatusCode::kFailedPrecondition);
}

// Promise 6: nothing is unbounded; over a limit the caller gets RESOURCE_EXHAUSTED.
TEST(LeaseTableTest, Promise6WhenAllSlotsAreTakenALeaseIsRefused) {
  LeaseTable leases(2);
  ASSERT_TRUE(leases.Grant(ExtentNumber(1), At(10), At(0)).ok());
  ASSERT_TRUE(leases.Grant(ExtentNumber(2), At(20), At(0)).ok());
  EXPECT_EQ(leases.Grant(ExtentNumber(3), At(20), At(9)).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(leases.Grant(ExtentNumber(3), At(20), At(10)).ok()) << "one has expired";
}

// Property: against a list of all leases ever granted.
TEST(LeaseTableTest, AgreesWithAListUnderRandomOperations) {
  constexpr uint64_t kSeed = 23;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  struct Granted {
    LeaseId id;
    uint64_t extent;
    TimePoint expiry;
    bool ended = false;
  };
  SeededRandom random(kSeed);
  LeaseTable leases(20);
  std::vector<Granted> all;
  TimePoint now = At(0);
  const auto live = [&](const Granted& lease) { return !lease.ended && lease.expiry > now; };
  for (int step = 0; step < 5000; ++step) {
    now += seconds(random.Below(3));
    const TimePoint expiry = now + seconds(1 + random.Below(30));
    const uint64_t extent = 1 + random.Below(8);
    const auto alive = static_cast<uint32_t>(std::ranges::count_if(all, live));
    if (random.Below(2) == 0) {
      const auto id = leases.Grant(ExtentNumber(extent), expiry, now);
      ASSERT_EQ(id.ok(), alive < 20);
      if (id.ok()) all.push_back({*id, extent, expiry});
    } else if (!all.empty()) {
      Granted& lease = all[all.size() - 1 - random.Below(std::min<size_t>(all.size(), 40))];
      const bool was_live = live(lease);
      if (random.Below(2) == 0) {
        ASSERT_EQ(leases.Release(lease.id, now).ok(), was_live);
        lease.ended = true;
      } else {
        ASSERT_EQ(leases.Renew(lease.id, expiry, now).ok(), was_live);
        if (was_live) lease.expiry = expiry;
      }
    }
    const bool held = std::ranges::any_of(
        all, [&](const Granted& lease) { return live(lease) && lease.extent == extent; });
    ASSERT_EQ(leases.IsHeld(ExtentNumber(extent), now), held);
    ASSERT_EQ(leases.Count(now), static_cast<size_t>(std::ranges::count_if(all, live)));
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
