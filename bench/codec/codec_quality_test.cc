// SPDX-License-Identifier: Apache-2.0
#include "bench/codec/codec_quality.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

TEST(CodecQuality, ErrorsAreTheLargestAndTheRootMeanSquare) {
  ErrorSum sum;
  EXPECT_EQ(sum.relative_error(), 0);
  sum.Add(3, 3.5);
  sum.Add(-4, -4);
  sum.Add(0, -1);
  EXPECT_DOUBLE_EQ(sum.max_error(), 1);
  EXPECT_DOUBLE_EQ(sum.relative_error(), std::sqrt(1.25 / 25));
}

TEST(CodecQuality, ALostAnswerIsNotMadeUpForByAGainedOne) {
  const Verdicts before = {true, true, false, false, true};
  const Verdicts after = {true, false, true, false, false};
  EXPECT_EQ(LostAnswers(before, after), 2u);
  EXPECT_EQ(LostAnswers(after, before), 1u);
  EXPECT_EQ(LostAnswers(before, before), 0u);
  EXPECT_EQ(LostAnswers({}, {}), 0u);
}

TEST(CodecQuality, AFractionOfNothingIsNothing) {
  EXPECT_EQ(Fraction(0, 0), 0);
  EXPECT_EQ(Fraction(1, 4), 0.25);
}

}  // namespace
}  // namespace quire::bench
