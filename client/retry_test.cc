// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <gtest/gtest.h>

#include "common/base/retry_hint.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

TEST(RetryTest, UnavailableIsRetriableWhereARepetitionIsSafe) {
  EXPECT_TRUE(IsRetriable(Unavailable("down"), Repeat::kSafe));
  EXPECT_FALSE(IsRetriable(Unavailable("down"), Repeat::kOnlyIfRefused));
}

TEST(RetryTest, ARefusalIsRetriableWhenItSaysWhen) {
  for (const Repeat repeat : {Repeat::kSafe, Repeat::kOnlyIfRefused}) {
    EXPECT_TRUE(IsRetriable(WithRetryAfter(ResourceExhausted("busy"), milliseconds(1)), repeat));
    for (const Status& status :
         {OkStatus(), ResourceExhausted("the disk is full"), InvalidArgument("x"), NotFound("x"),
          DataLoss("x"), FailedPrecondition("x"), DeadlineExceeded("x"), AlreadyExists("x")}) {
      EXPECT_FALSE(IsRetriable(status, repeat)) << status;
    }
  }
}

TEST(RetryTest, WaitsAtLeastAsLongAsTheRefusalAsks) {
  const RetryOptions options{.first_backoff = milliseconds(10), .jitter = 0};
  SeededRandom random(1);
  const Status busy = WithRetryAfter(ResourceExhausted("busy"), milliseconds(15));
  EXPECT_EQ(WaitAfter(busy, options, 1, random), milliseconds(15));
  EXPECT_EQ(WaitAfter(busy, options, 2, random), milliseconds(20));
}

TEST(RetryTest, WaitsDoubleUpToTheMaximum) {
  const RetryOptions options{
      .first_backoff = milliseconds(10), .max_backoff = milliseconds(50), .jitter = 0};
  SeededRandom random(1);
  EXPECT_EQ(WaitAfter(Unavailable("down"), options, 1, random), milliseconds(10));
  EXPECT_EQ(WaitAfter(Unavailable("down"), options, 2, random), milliseconds(20));
  EXPECT_EQ(WaitAfter(Unavailable("down"), options, 3, random), milliseconds(40));
  EXPECT_EQ(WaitAfter(Unavailable("down"), options, 4, random), milliseconds(50));
  EXPECT_EQ(WaitAfter(Unavailable("down"), options, 4'000'000'000u, random), milliseconds(50));
}

TEST(RetryTest, JitterSpreadsWaitsOverItsRangeOnly) {
  const RetryOptions options{.first_backoff = milliseconds(100), .jitter = 0.2};
  SeededRandom random(7);
  Duration least = Duration::max();
  Duration most = Duration::min();
  for (int i = 0; i < 1000; ++i) {
    const Duration wait = WaitAfter(Unavailable("down"), options, 1, random);
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
