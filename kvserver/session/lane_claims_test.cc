// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/lane_claims.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver {
namespace {

using Lanes = std::vector<uint32_t>;
const TimePoint kNoDeadline = TimePoint::max();
/// A deadline in the past: calls that would wait are refused.
const TimePoint kNow = TimePoint{};

void AwaitWaiting(const LaneClaims& claims, uint32_t waiting) {
  while (claims.waiting() != waiting) quire::testing::WaitToLookAgain();
}

TEST(LaneClaimsTest, CallsOnDifferentLanesDoNotMeet) {
  LaneClaims claims(8, 4);
  const auto first = claims.Take({0, 1}, kNow);
  const auto second = claims.Take({5, 2}, kNow);
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(claims.Take({3, 5}, kNow).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(claims.Take({3, 4}, kNow).ok()) << "a call that was turned away claims nothing";
}

TEST(LaneClaimsTest, LanesComeBackOneAfterTheOtherInTheOrderNamed) {
  LaneClaims claims(8, 4);
  auto claim = std::make_optional(claims.Take({7, 0, 3}, kNow));
  (*claim)->ReleaseFirst(2);
  EXPECT_TRUE(claims.Take({0, 7}, kNow).ok());
  EXPECT_FALSE(claims.Take({3}, kNow).ok());
  claim.reset();
  EXPECT_TRUE(claims.Take({3}, kNow).ok());
  EXPECT_EQ(claims.working(), 0u);
}

TEST(LaneClaimsTest, ACallGetsItsLanesWhenTheyAreFree) {
  LaneClaims claims(4, 4);
  auto first = std::make_optional(claims.Take({1}, kNow));
  std::thread waiter([&] { EXPECT_TRUE(claims.Take({0, 1}, kNoDeadline).ok()); });
  AwaitWaiting(claims, 1);
  EXPECT_TRUE(claims.Take({0}, kNow).ok()) << "who waits holds nothing";
  first.reset();
  waiter.join();
}

TEST(LaneClaimsTest, ACallThatNobodyWaitsForAnyMoreStopsWaiting) {
  LaneClaims claims(4, 4);
  const auto first = claims.Take({1}, kNow);
  std::atomic<bool> wanted{true};
  std::thread waiter([&] {
    const auto status = [&] {
      return wanted ? OkStatus() : Status(StatusCode::kCancelled, "nobody waits");
    };
    EXPECT_EQ(claims.Take({1}, kNoDeadline, status).status().code(), StatusCode::kCancelled);
  });
  AwaitWaiting(claims, 1);
  wanted = false;
  waiter.join();
  EXPECT_EQ(claims.waiting(), 0u);
}

TEST(LaneClaimsTest, NoMoreWaitThanWorkAndNoMoreWorkThanMay) {
  LaneClaims claims(4, 2);
  auto first = std::make_optional(claims.Take({0}, kNow));
  std::thread waiter([&] { EXPECT_TRUE(claims.Take({0}, kNoDeadline).ok()); });
  AwaitWaiting(claims, 1);
  const Status behind = claims.Take({0}, kNoDeadline).status();
  EXPECT_EQ(behind.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(behind)) << behind;
  {
    const auto second = claims.Take({1}, kNow);
    ASSERT_TRUE(second.ok());
    const Status third = claims.Take({2}, kNoDeadline).status();
    EXPECT_EQ(third.code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryAfter(third)) << third;
  }
  first.reset();
  waiter.join();
  EXPECT_TRUE(claims.Take({0, 1, 2, 3}, kNow).ok()) << "a refusal takes no place";
}

TEST(LaneClaimsTest, TheWholeSessionWaitsForThoseThatWorkAndOthersForIt) {
  LaneClaims claims(4, 4);
  auto first = std::make_optional(claims.Take({0}, kNow));
  EXPECT_EQ(claims.TakeAll(kNow).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(claims.Take({1}, kNow).ok()) << "who gave up is in nobody's way";
  std::optional<StatusOr<LaneClaims::Claim>> whole;
  std::thread waiter([&] { whole.emplace(claims.TakeAll(kNoDeadline)); });
  AwaitWaiting(claims, 1);
  EXPECT_FALSE(claims.Take({1}, kNow).ok()) << "it would keep the whole session waiting";
  first.reset();
  waiter.join();
  ASSERT_TRUE(whole->ok());
  EXPECT_FALSE(claims.Take({1}, kNow).ok());
  EXPECT_FALSE(claims.TakeAll(kNow).ok());
  whole.reset();
  EXPECT_TRUE(claims.Take({1}, kNow).ok());
  EXPECT_TRUE(claims.TakeAll(kNow).ok());
}

TEST(LaneClaimsTest, EveryLaneHasOneUserAndNobodyWaitsForever) {
  constexpr uint32_t kLanes = 6;
  LaneClaims claims(kLanes, 8);
  std::vector<std::atomic<int>> users(kLanes);
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    threads.emplace_back([&, seed] {
      SeededRandom random(seed);
      for (int round = 0; round < 2000; ++round) {
        Lanes lanes;
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
          if (random.Below(3) == 0) lanes.push_back(lane);
        }
        const bool whole = random.Below(50) == 0;
        auto claim = whole ? claims.TakeAll(kNoDeadline) : claims.Take(lanes, kNoDeadline);
        if (!claim.ok()) continue;
        if (whole) {
          lanes.resize(kLanes);
          for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane;
        }
        for (const uint32_t lane : lanes) EXPECT_EQ(users[lane].fetch_add(1), 0) << lane;
        for (const uint32_t lane : lanes) users[lane].fetch_sub(1);
        if (!whole) claim->ReleaseFirst(lanes.size() / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(claims.working() + claims.waiting(), 0u);
}

}  // namespace
}  // namespace quire::kvserver
