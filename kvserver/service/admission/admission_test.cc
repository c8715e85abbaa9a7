// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/admission/admission.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/retry_hint.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver {
namespace {

constexpr char kQueuedOfA[] = "admission_queued{door=\"read\",tenant=\"a\"}";

class AdmissionTest : public ::testing::Test {
 protected:
  static TimePoint InMinutes(int minutes) {
    return SystemClock().Now() + std::chrono::minutes(minutes);
  }
  static uint64_t Value(const Admission& admission, const std::string& name) {
    return MetricValuesOf(admission).at(name);
  }
  static void AwaitQueued(const Admission& admission, uint64_t count) {
    while (Value(admission, kQueuedOfA) != count) quire::testing::WaitToLookAgain();
  }
};

TEST_F(AdmissionTest, CallsOverTheBoundAreRefusedWithAHint) {
  Admission admission({.door = "read", .max_running = 1, .max_queued_per_tenant = 1});
  auto running = std::make_optional(admission.Enter("a", 1, InMinutes(5)));
  ASSERT_TRUE(running->ok());
  std::thread waiting([&] { EXPECT_TRUE(admission.Enter("a", 1, InMinutes(5)).ok()); });
  AwaitQueued(admission, 1);
  const auto refused = admission.Enter("a", 1, InMinutes(5));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << refused.status();
  EXPECT_TRUE(RetryAfter(refused.status())) << refused.status();
  EXPECT_EQ(Value(admission, "admission_refused{door=\"read\",tenant=\"a\"}"), 1u);
  std::thread other([&] { EXPECT_TRUE(admission.Enter("b", 1, InMinutes(5)).ok()); });
  running.reset();
  waiting.join();
  other.join();
  EXPECT_EQ(Value(admission, "admission_running{door=\"read\"}"), 0u);
  EXPECT_EQ(Value(admission, kQueuedOfA), 0u);
}

TEST_F(AdmissionTest, WhereTheQueueIsFullACorrectionTakesThePlaceOfAPrefetch) {
  Admission admission({.door = "read", .max_running = 1, .max_queued_per_tenant = 1});
  auto running = std::make_optional(admission.Enter("a", 1, InMinutes(5)));
  ASSERT_TRUE(running->ok());
  std::thread prefetch([&] {
    const auto refused = admission.Enter("a", 1, InMinutes(5), Priority::kPrefetch);
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << refused.status();
    EXPECT_TRUE(RetryAfter(refused.status())) << refused.status();
  });
  AwaitQueued(admission, 1);
  std::thread correction(
      [&] { EXPECT_TRUE(admission.Enter("a", 1, InMinutes(5), Priority::kCorrection).ok()); });
  prefetch.join();
  running.reset();
  correction.join();
  EXPECT_EQ(Value(admission, "admission_running{door=\"read\"}"), 0u);
  EXPECT_EQ(Value(admission, kQueuedOfA), 0u);
}

TEST_F(AdmissionTest, ACallThatWaitsOutsideLetsAnotherRunAndGoesOnAtOnce) {
  constexpr char kRunning[] = "admission_running{door=\"read\"}";
  Admission admission({.door = "read", .max_running = 1, .max_queued_per_tenant = 1});
  auto slow = std::make_optional(admission.Enter("a", 1, InMinutes(5)));
  ASSERT_TRUE(slow->ok());
  std::optional<StatusOr<Admission::Pass>> other;
  const int answer = (*slow)->Outside([&] {
    other.emplace(admission.Enter("a", 1, InMinutes(5)));
    return 7;
  });
  EXPECT_EQ(answer, 7);
  ASSERT_TRUE(other->ok());
  EXPECT_EQ(Value(admission, kRunning), 2u);
  std::thread third([&] { EXPECT_TRUE(admission.Enter("a", 1, InMinutes(5)).ok()); });
  AwaitQueued(admission, 1);
  slow.reset();
  EXPECT_EQ(Value(admission, kQueuedOfA), 1u) << "there was one too many";
  other.reset();
  third.join();
  EXPECT_EQ(Value(admission, kRunning), 0u);
}

TEST_F(AdmissionTest, ACancelledCallLeavesTheQueue) {
  Admission admission({.door = "read", .max_running = 1, .max_queued_per_tenant = 1});
  const auto running = admission.Enter("a", 1, InMinutes(5));
  CancelFlag cancelled;
  std::thread waiting([&] {
    const auto pass = admission.Enter("a", 1, InMinutes(5), Priority::kPrefetch, &cancelled);
    EXPECT_EQ(pass.status().code(), StatusCode::kCancelled) << pass.status();
  });
  AwaitQueued(admission, 1);
  cancelled.Set();
  waiting.join();
  EXPECT_EQ(Value(admission, kQueuedOfA), 0u);
}

TEST_F(AdmissionTest, AnExpiredCallLeavesTheQueue) {
  Admission admission({.door = "read", .max_running = 1, .max_queued_per_tenant = 1});
  auto running = std::make_optional(admission.Enter("a", 1, InMinutes(5)));
  for (int i = 0; i < 3; ++i) {  // Each takes the place of the one before.
    const TimePoint soon = SystemClock().Now() + std::chrono::milliseconds(1);
    const auto late = admission.Enter("a", 1, soon);
    EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded) << late.status();
  }
  EXPECT_EQ(Value(admission, kQueuedOfA), 0u);
  EXPECT_EQ(Value(admission, "admission_expired{door=\"read\",tenant=\"a\"}"), 3u);
  running.reset();
  EXPECT_TRUE(admission.Enter("a", 1, InMinutes(5)).ok()) << "no place was lost";
}

TEST_F(AdmissionTest, AnUrgentCallIsLetInFirst) {
  Admission admission({.door = "read", .max_running = 1});
  auto running = std::make_optional(admission.Enter("a", 1, InMinutes(5)));
  std::vector<Priority> order;  // Written by the holder of the only place.
  const auto enter = [&](Priority priority) {
    const auto pass = admission.Enter("a", 1, InMinutes(5), priority);
    EXPECT_TRUE(pass.ok());
    order.push_back(priority);
  };
  std::thread prefetch([&] { enter(Priority::kPrefetch); });
  AwaitQueued(admission, 1);
  std::thread correction([&] { enter(Priority::kCorrection); });
  AwaitQueued(admission, 2);
  running.reset();
  prefetch.join();
  correction.join();
  EXPECT_EQ(order, (std::vector<Priority>{Priority::kCorrection, Priority::kPrefetch}));
}

TEST_F(AdmissionTest, AnEndlessDeadlineIsOne) {
  Admission admission({.door = "read", .max_running = 1, .max_queued_per_tenant = 1});
  auto running = std::make_optional(admission.Enter("a", 1, TimePoint::max()));
  std::thread waiting([&] { EXPECT_TRUE(admission.Enter("a", 1, TimePoint::max()).ok()); });
  AwaitQueued(admission, 1);
  running.reset();
  waiting.join();
}

TEST_F(AdmissionTest, NeverMoreRunThanMayAndEverybodyGetsIn) {
  constexpr int kMaxRunning = 3;
  Admission admission({.door = "read", .max_running = kMaxRunning, .max_queued_per_tenant = 2});
  std::atomic<int> running{0}, most{0}, finished{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, tenant = std::string(1, static_cast<char>('a' + t % 3))] {
      for (int i = 0; i < 200;) {
        const auto pass = admission.Enter(tenant, 1 + i % 7, InMinutes(5));
        if (!pass.ok()) {
          ASSERT_TRUE(RetryAfter(pass.status())) << pass.status();
          std::this_thread::yield();
          continue;
        }
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --running;
        ++finished;
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished, 1600);
  EXPECT_LE(most, kMaxRunning);
  EXPECT_EQ(Value(admission, "admission_running{door=\"read\"}"), 0u);
}

}  // namespace
}  // namespace quire::kvserver
