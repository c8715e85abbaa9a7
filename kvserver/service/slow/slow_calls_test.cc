// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/slow/slow_calls.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/kit/fake_clock.h"

namespace quire::kvserver {
namespace {

using quire::testing::FakeClock;
using std::chrono::microseconds;
using std::chrono::minutes;

SlowCall Lasting(Duration time, const std::string& tenant = "a") {
  SlowCall call;
  call.tenant = tenant;
  call.time = time;
  return call;
}

TEST(SlowCallsTest, TheSlowestOfEachMinuteOfTheLastHourAreKept) {
  FakeClock clock;
  SlowCalls slow(&clock);
  for (int minute = 0; minute < 70; ++minute) {
    for (int i = 1; i <= 40; ++i) {
      const Duration time = microseconds(1000 * (minute % 7) + i);
      if (slow.IsSlow(time)) slow.Note(Lasting(time));
    }
    clock.Advance(minutes(1));
  }
  const auto all = slow.Slowest(SIZE_MAX);
  EXPECT_EQ(all.size(), (SlowCalls::kMinutes - 1) * SlowCalls::kPerMinute)
      << "whole minutes, and this one, in which there was no call";
  EXPECT_EQ(all.front().time, microseconds(6040));
  EXPECT_EQ(all.back().time, microseconds(25)) << "the 16th of 40";
  EXPECT_EQ(slow.Slowest(3).size(), 3u);
  clock.Advance(minutes(60));
  EXPECT_TRUE(slow.Slowest(SIZE_MAX).empty());
}

TEST(SlowCallsTest, AFasterCallIsNotEvenLookedAt) {
  FakeClock clock;
  SlowCalls slow(&clock);
  for (int i = 0; i < 16; ++i) slow.Note(Lasting(microseconds(100)));
  EXPECT_FALSE(slow.IsSlow(microseconds(100)));
  EXPECT_TRUE(slow.IsSlow(microseconds(101)));
  clock.Advance(minutes(1));
  EXPECT_TRUE(slow.IsSlow(microseconds(1))) << "the first of its minute";
}

TEST(SlowCallsTest, ATenantHasItsOwn) {
  FakeClock clock;
  SlowCalls slow(&clock);
  slow.Note(Lasting(microseconds(2), "a"));
  slow.Note(Lasting(microseconds(3), "b"));
  EXPECT_EQ(slow.Slowest(9, "a").size(), 1u);
  EXPECT_EQ(slow.Slowest(9).front().tenant, "b");
}

TEST(CallWaitsTest, AScopeLeavesOutWhatItsPartsTook) {
  CallWaits waits;
  {
    const WaitTimer outer(&waits, WaitedFor::kSelection);
    waits.Add(WaitedFor::kSsd, std::chrono::hours(1));
  }
  EXPECT_EQ(waits.of(WaitedFor::kSsd), std::chrono::hours(1));
  EXPECT_LT(waits.of(WaitedFor::kSelection), Duration{0}) << "an hour less than none";
  const WaitTimer nothing(nullptr, WaitedFor::kDram);
}

}  // namespace
}  // namespace quire::kvserver
