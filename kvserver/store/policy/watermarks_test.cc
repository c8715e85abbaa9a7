// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/watermarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace quire::kvserver {
namespace {

TEST(WatermarksTest, EvictionStartsAboveHighAndGoesOnUntilLow) {
  Watermarks marks = Watermarks::Make(1000, 0.8, 0.9).value();
  EXPECT_EQ(marks.BytesToEvict(850), 0u) << "between the marks, on the way up";
  EXPECT_EQ(marks.BytesToEvict(900), 0u);
  EXPECT_EQ(marks.BytesToEvict(901), 101u);
  EXPECT_EQ(marks.BytesToEvict(850), 50u) << "between the marks, on the way down";
  EXPECT_EQ(marks.BytesToEvict(800), 0u);
  EXPECT_EQ(marks.BytesToEvict(850), 0u);
}

TEST(WatermarksTest, EqualMarksEvictWhatIsAbove) {
  Watermarks marks = Watermarks::Make(1000, 0.9, 0.9).value();
  EXPECT_EQ(marks.BytesToEvict(905), 5u);
  EXPECT_EQ(marks.BytesToEvict(900), 0u);
}

TEST(WatermarksTest, NeverExceedTheCapacity) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() / 2;
  Watermarks marks = Watermarks::Make(kMost, 1, 1).value();
  EXPECT_LE(marks.high_bytes(), kMost);
  EXPECT_EQ(marks.BytesToEvict(0), 0u);
}

TEST(WatermarksTest, MarksThatMakeNoSenseAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [low, high] :
       {std::pair{0.0, 0.9}, {0.95, 0.9}, {0.5, 1.1}, {-1.0, 0.5}, {nan, 0.9}, {0.5, nan}}) {
    const Status status = Watermarks::Make(1000, low, high).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << low << " " << high;
  }
}

}  // namespace
}  // namespace quire::kvserver
