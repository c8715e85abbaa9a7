// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/side_by_side.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::bench {
namespace {

using std::chrono::milliseconds;

/// A contender that records its turns.
SideBySide::Contender Noted(char name, std::string* turns) {
  return {.turn = [=]() -> Status {
            *turns += name;
            return OkStatus();
          },
          .prepare = [=]() -> Status {
            *turns += ' ';
            return OkStatus();
          }};
}

TEST(SideBySideTest, AnotherBeginsEachRoundAndEveryOtherRoundGoesBackwards) {
  std::string turns;
  SideBySide sides({Noted('a', &turns), Noted('b', &turns), Noted('c', &turns)});
  ASSERT_TRUE(sides.Run(4).ok());
  EXPECT_EQ(turns, " a b c b a c c a b a c b");
}

TEST(SideBySideTest, UntimedTurnsComeBeforeEachTimedOne) {
  std::string turns;
  SideBySide sides({Noted('a', &turns), Noted('b', &turns)}, /*untimed=*/2);
  ASSERT_TRUE(sides.Run(2).ok());
  EXPECT_EQ(turns, " a a a b b b b b b a a a");
}

TEST(SideBySideTest, OnlyTimedTurnsCount) {
  int turns = 0;
  const auto slow_at_first = SideBySide::Timing([&]() -> StatusOr<Duration> {
    return turns++ % 2 == 0 ? milliseconds(1000) : milliseconds(10);
  });
  const auto steady = SideBySide::Timing([]() -> StatusOr<Duration> { return milliseconds(5); });
  SideBySide sides({slow_at_first, steady}, /*untimed=*/1);
  ASSERT_TRUE(sides.Run(3).ok());
  EXPECT_DOUBLE_EQ(sides.Ratio(0, 1), 0.5);
  EXPECT_DOUBLE_EQ(sides.PerSecond(0, 10), 1000);
}

TEST(SideBySideTest, ARatioIsTheMedianOfTheRounds) {
  std::vector<int> millis = {10, 10, 40, 80, 10};
  size_t round = 0;
  const auto drifting =
      SideBySide::Timing([&]() -> StatusOr<Duration> { return milliseconds(millis[round++]); });
  const auto steady = SideBySide::Timing([]() -> StatusOr<Duration> { return milliseconds(10); });
  SideBySide sides({drifting, steady});
  ASSERT_TRUE(sides.Run(5).ok());
  EXPECT_DOUBLE_EQ(sides.Ratio(0, 1), 1);
}

TEST(SideBySideTest, AnErrorEndsIt) {
  std::string turns;
  SideBySide sides(
      {Noted('a', &turns), {.turn = [] { return Unavailable("gone"); }}, Noted('c', &turns)});
  EXPECT_EQ(sides.Run(2).code(), StatusCode::kUnavailable);
  EXPECT_EQ(turns, " a");
}

}  // namespace
}  // namespace quire::bench
