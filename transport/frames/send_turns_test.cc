// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/send_turns.h"

#include <gtest/gtest.h>

#include "common/base/retry_hint.h"
#include "transport/frames/call_threads.h"

namespace quire {
namespace {

TEST(SendTurnsTest, TheMostUrgentGoesFirstAndThenTheOldest) {
  SendTurns turns;
  SendTurns::Turn running{.urgency = 2, .frame_urgency = 2}, low1, low2;
  SendTurns::Turn high{.urgency = 2, .frame_urgency = 2};
  turns.Enter(&running);
  EXPECT_TRUE(running.granted);
  for (SendTurns::Turn* turn : {&low1, &low2, &high}) turns.Enter(turn);
  const SendTurns::Turn* sends = &running;
  for (const SendTurns::Turn* next : {&high, &low1, &low2}) {
    EXPECT_FALSE(next->granted);
    turns.Finish(*sends);
    EXPECT_TRUE(next->granted);
    sends = next;
  }
  turns.Finish(*sends);
  EXPECT_FALSE(turns.busy());
}

TEST(SendTurnsTest, OneThatIsMoreUrgentThanAllThatIsBeingSentDoesNotWait) {
  SendTurns turns;
  SendTurns::Turn low1, low2, middle{.urgency = 1, .frame_urgency = 1};
  SendTurns::Turn high1{.urgency = 2, .frame_urgency = 2};
  SendTurns::Turn high2{.urgency = 2, .frame_urgency = 2};
  for (SendTurns::Turn* turn : {&low1, &low2, &high1, &high2, &middle}) turns.Enter(turn);
  EXPECT_TRUE(low1.granted);
  EXPECT_TRUE(high1.granted);
  EXPECT_FALSE(low2.granted || high2.granted || middle.granted);
  turns.Finish(low1);
  EXPECT_FALSE(low2.granted || high2.granted || middle.granted) << "high1 is still being sent";
  turns.Finish(high1);
  EXPECT_TRUE(high2.granted);
  turns.Finish(high2);
  EXPECT_TRUE(middle.granted);
  turns.Finish(middle);
  EXPECT_TRUE(low2.granted);
  turns.Finish(low2);
  EXPECT_FALSE(turns.busy());
}

TEST(SendTurnsTest, WhatWaitsAsUrgentAndSendsWhatIsNotHoldsUpNobodyMoreUrgent) {
  SendTurns turns;
  SendTurns::Turn low, own{.urgency = 3, .frame_urgency = 0};
  SendTurns::Turn high{.urgency = 2, .frame_urgency = 2};
  for (SendTurns::Turn* turn : {&low, &own, &high}) turns.Enter(turn);
  EXPECT_TRUE(low.granted && own.granted && high.granted);
  for (const SendTurns::Turn* turn : {&low, &own, &high}) turns.Finish(*turn);
  EXPECT_FALSE(turns.busy());
}

TEST(SendTurnsTest, OneWithoutCreditHoldsUpNobody) {
  SendTurns turns;
  int64_t none = -5, some = 10;
  SendTurns::Turn poor{.credit_needed = 10, .credit = &none};
  SendTurns::Turn rich{.credit_needed = 10, .credit = &some};
  turns.Enter(&poor);
  turns.Enter(&rich);
  EXPECT_FALSE(poor.granted);
  EXPECT_TRUE(rich.granted);
  none = 10;
  turns.Grant();
  EXPECT_FALSE(poor.granted) << "one at a time";
  turns.Finish(rich);
  EXPECT_TRUE(poor.granted);
}

TEST(SendTurnsTest, WhoLeavesIsNotServed) {
  SendTurns turns;
  SendTurns::Turn running, gone, next;
  turns.Enter(&running);
  turns.Enter(&gone);
  turns.Enter(&next);
  turns.Leave(&gone);
  turns.Finish(running);
  EXPECT_FALSE(gone.granted);
  EXPECT_TRUE(next.granted);
}

TEST(CallThreadsTest, NoTenantHasMoreThanHalfAndAllHaveNoMoreThanThereAre) {
  Mutex mutex;
  CondVar changed;
  bool open = false;
  int ran = 0;
  const auto wait = [&] {
    MutexLock lock(mutex);
    while (!open) changed.Wait(mutex);
    ++ran;
  };
  {
    CallThreads threads(4);
    EXPECT_TRUE(threads.Run("a", wait).ok());
    EXPECT_TRUE(threads.Run("a", wait).ok());
    const Status refused = threads.Run("a", wait);
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryAfter(refused)) << refused;
    EXPECT_TRUE(threads.Run("b", wait).ok());
    EXPECT_TRUE(threads.Run("c", wait).ok());
    EXPECT_EQ(threads.Run("d", wait).code(), StatusCode::kResourceExhausted);
    {
      MutexLock lock(mutex);
      open = true;
      changed.NotifyAll();
    }
    Status again;
    do {  // Places become free as tasks return.
      again = threads.Run("a", wait);
    } while (!again.ok());
  }
  MutexLock lock(mutex);
  EXPECT_EQ(ran, 5);
}

TEST(CallThreadsTest, PrefetchesLeaveThreadsForCorrections) {
  Mutex mutex;
  CondVar changed;
  bool open = false;
  const auto wait = [&] {
    MutexLock lock(mutex);
    while (!open) changed.Wait(mutex);
  };
  CallThreads threads(16);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(threads.Run("a", wait, Priority::kPrefetch).ok());
  const Status refused = threads.Run("a", wait, Priority::kPrefetch);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(refused)) << refused;
  EXPECT_TRUE(threads.Run("a", wait, Priority::kNormal).ok());
  EXPECT_TRUE(threads.Run("a", wait, Priority::kCorrection).ok());
  EXPECT_FALSE(threads.Run("a", wait, Priority::kCorrection).ok()) << "half of the threads";
  // All tenants together: 12 of 16 threads; the rest is for urgent calls.
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(threads.Run("b", wait, Priority::kPrefetch).ok());
  EXPECT_FALSE(threads.Run("b", wait, Priority::kPrefetch).ok());
  EXPECT_TRUE(threads.Run("b", wait, Priority::kCorrection).ok());
  MutexLock lock(mutex);
  open = true;
  changed.NotifyAll();
}

}  // namespace
}  // namespace quire
