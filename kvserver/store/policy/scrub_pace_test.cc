// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/scrub_pace.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(ScrubPaceTest, KeepsToItsRateHoweverMuchIsReadAtOnce) {
  constexpr uint64_t kRate = 1000;
  constexpr uint64_t kLargest = 500;
  quire::testing::FakeClock clock;
  ScrubPace pace(kRate);
  SeededRandom random(3);
  const TimePoint start = clock.Now();
  uint64_t bytes = 0;
  for (int i = 0; i < 1000; ++i) {
    const double elapsed = std::chrono::duration<double>(clock.Now() - start).count();
    EXPECT_LE(static_cast<double>(bytes), kRate * elapsed + 1e-3);
    const uint64_t read = 1 + random.Below(kLargest);
    bytes += read;
    clock.Advance(milliseconds(random.Below(200)));  // the reading itself takes time
    clock.Sleep(pace.AfterReading(read, clock.Now()));
  }
}

TEST(ScrubPaceTest, IdleTimeIsNotMadeUpFor) {
  quire::testing::FakeClock clock;
  ScrubPace pace(1000);
  EXPECT_EQ(pace.AfterReading(1000, clock.Now()), seconds(1));
  clock.Advance(minutes(10));
  EXPECT_EQ(pace.AfterReading(1000, clock.Now()), seconds(1));
  clock.Advance(milliseconds(400));
  EXPECT_EQ(pace.AfterReading(1000, clock.Now()), milliseconds(1600));
}

TEST(ScrubPaceTest, NoRateIsNoWaiting) {
  EXPECT_EQ(ScrubPace(0).AfterReading(uint64_t{1} << 40, TimePoint()), Duration::zero());
}

TEST(ScrubPaceTest, TheSlowestRateDoesNotOverflow) {
  ScrubPace pace(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_GT(pace.AfterReading(UINT64_MAX, TimePoint()), Duration::zero());
  }
}

TEST(ScrubPaceTest, RoundsStartAtRegularTimesOrWhenTheLastOneHasEnded) {
  const TimePoint start = TimePoint() + seconds(100);
  EXPECT_EQ(ScrubPace::AfterRound(start, start + minutes(5)),
            ScrubPace::kRoundsApart - Duration(minutes(5)));
  EXPECT_EQ(ScrubPace::AfterRound(start, start + 3 * ScrubPace::kRoundsApart), Duration::zero());
}

}  // namespace
}  // namespace quire::kvserver
