// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;

TEST(RetryTest, OnlyUnavailableAndResourceExhaustedAreRetriable) {
  EXPECT_TRUE(IsRetriable(Unavailable("down")));
  EXPECT_TRUE(IsRetriable(ResourceExhausted("full")));
  for (const Status& status :
       {OkStatus(), InvalidArgument("x"), NotFound("x"), DataLoss("x"), FailedPrecondition("x"),
        DeadlineExceeded("x"), AlreadyExists("x")}) {
    EXPECT_FALSE(IsRetriable(status)) << status;
  }
}

TEST(RetryTest, WaitsDoubleUpToTheMaximum) {
  const RetryOptions options{
      .first_backoff = milliseconds(10), .max_backoff = milliseconds(50), .jitter = 0};
  Random random(1);
  EXPECT_EQ(Backoff(options, 1, random), milliseconds(10));
  EXPECT_EQ(Backoff(options, 2, random), milliseconds(20));
  EXPECT_EQ(Backoff(options, 3, random), milliseconds(40));
  EXPECT_EQ(Backoff(options, 4, random), milliseconds(50));
  EXPECT_EQ(Backoff(options, 4'000'000'000u, random), milliseconds(50));
}

TEST(RetryTest, JitterSpreadsWaitsOverItsRangeOnly) {
  const RetryOptions options{.first_backoff = milliseconds(100), .jitter = 0.2};
  Random random(7);
  Duration least = Duration::max();
  Duration most = Duration::min();
  for (int i = 0; i < 1000; ++i) {
    const Duration wait = Backoff(options, 1, random);
    least = std::min(least, wait);
    most = std::max(most, wait);
  }
  EXPECT_GE(least, milliseconds(80));
  EXPECT_LT(least, milliseconds(82));
  EXPECT_LE(most, milliseconds(120));
  EXPECT_GT(most, milliseconds(118));
}

}  // namespace
}  // namespace quire
