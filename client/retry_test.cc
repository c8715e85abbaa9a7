// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <gtest/gtest.h>

#include "common/base/retry_hint.h"

namespace quire::internal {
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

/// Attempts that all fail, on a clock that only the waits move.
class AttemptsTest : public ::testing::Test {
 protected:
  /// Makes attempts until there is none more; how the last wait ended.
  Status Exhaust(const Status& failure, TimePoint deadline) {
    SeededRandom random(3);
    Attempts attempts(options_, random, peer_, deadline);
    for (count_ = 1;; ++count_) {
      const auto next = attempts.Next(failure, now_);
      if (!next.ok()) return next.status();
      EXPECT_GT(*next, now_);
      now_ = *next;
    }
  }
  const TimePoint start_{std::chrono::hours(1)};
  TimePoint now_ = start_;
  RetryOptions options_;
  Reachability peer_;
  int count_ = 0;
};

TEST_F(AttemptsTest, GoOnUntilTheDeadlineByThemselves) {
  const Status end = Exhaust(Unavailable("down"), start_ + std::chrono::seconds(20));
  EXPECT_TRUE(IsDeadlineExceeded(end)) << end;
  EXPECT_GT(now_ - start_, milliseconds(19'900));
  EXPECT_LT(now_ - start_, std::chrono::seconds(20));
  EXPECT_LT(count_, 40);
}

TEST_F(AttemptsTest, WaitForAPeerAsLongAsIsGivenAndNotAsLongAgain) {
  options_.unreachable_for = std::chrono::seconds(5);
  EXPECT_EQ(Exhaust(Unavailable("down"), start_ + std::chrono::seconds(60)), Unavailable("down"));
  EXPECT_GT(now_ - start_, milliseconds(4'900));
  EXPECT_LE(now_ - start_, std::chrono::seconds(5));
  const TimePoint second = now_;
  EXPECT_TRUE(IsUnavailable(Exhaust(Unavailable("down"), now_ + std::chrono::seconds(60))));
  EXPECT_LT(now_ - second, milliseconds(100));
  peer_.Note(OkStatus(), now_);
  EXPECT_TRUE(IsUnavailable(Exhaust(Unavailable("down"), now_ + std::chrono::seconds(60))));
  EXPECT_GT(now_ - second, milliseconds(4'900));
}

TEST_F(AttemptsTest, SayThatAPeerCannotBeReachedAlsoAtTheDeadline) {
  options_.unreachable_for = std::chrono::seconds(5);
  EXPECT_EQ(Exhaust(Unavailable("down"), start_ + std::chrono::seconds(3)), Unavailable("down"));
  EXPECT_GT(now_ - start_, milliseconds(2'900));
  EXPECT_LT(now_ - start_, std::chrono::seconds(3));
}

TEST_F(AttemptsTest, SayTheSameWhereAWaitTookTheRestOfTheTime) {
  for (const Duration patience : {Duration::max(), Duration(std::chrono::seconds(5))}) {
    options_.unreachable_for = patience;
    SeededRandom random(3);
    Reachability peer;
    Attempts attempts(options_, random, peer, start_ + std::chrono::seconds(3));
    EXPECT_TRUE(IsDeadlineExceeded(attempts.DeadlineError())) << "before the first";
    ASSERT_TRUE(attempts.Next(Unavailable("down"), start_).ok());
    const Status end = attempts.DeadlineError();
    EXPECT_EQ(IsUnavailable(end), patience != Duration::max()) << end;
    EXPECT_NE(Message(end).find("down"), std::string_view::npos) << end;
    const Status late = attempts.End(DeadlineExceeded("late"));
    EXPECT_EQ(late, DeadlineExceeded("late; the attempt before said: down"));
    EXPECT_EQ(attempts.End(Internal("bad")), Internal("bad"));
  }
}

TEST(ReachabilityTest, APeerThatAnswersIsReachedWhateverItSays) {
  Health health(&SystemClock());
  Reachability peer(&health);
  const TimePoint now{};
  peer.Note(Unavailable("nobody listens"), now);
  EXPECT_TRUE(health.IsRaised(Trouble::kStoreUnreached));
  peer.Note(Answered(Unavailable("a volume was removed")), now);
  EXPECT_FALSE(health.IsRaised(Trouble::kStoreUnreached));
}

TEST_F(AttemptsTest, HeedTheTimeThatARefusalNames) {
  const Status busy = WithRetryAfter(ResourceExhausted("busy"), milliseconds(700));
  EXPECT_TRUE(IsDeadlineExceeded(Exhaust(busy, start_ + std::chrono::seconds(10))));
  EXPECT_GT(now_ - start_, std::chrono::seconds(8));
  EXPECT_LE(count_, 11);
}

TEST_F(AttemptsTest, EndAtTheMaximum) {
  options_.max_attempts = 3;
  EXPECT_TRUE(IsUnavailable(Exhaust(Unavailable("x"), start_ + std::chrono::hours(1))));
  EXPECT_EQ(count_, 3);
}

}  // namespace
}  // namespace quire::internal
