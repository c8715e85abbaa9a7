// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/urgent_queue.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(UrgentQueueTest, TheMostUrgentGoesFirstAndThenTheOldest) {
  UrgentQueue<int> queue;
  queue.Push(1, Priority::kPrefetch);
  queue.Push(2, Priority::kNormal);
  queue.Push(3, Priority::kCorrection);
  queue.Push(4, Priority::kPrefetch);
  queue.Push(5, Priority::kCorrection);
  for (const int expected : {3, 5, 2, 1, 4}) {
    EXPECT_EQ(queue.Next(), expected);
    EXPECT_EQ(queue.Pop(), expected);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(UrgentQueueTest, NobodyIsOvertakenForEver) {
  UrgentQueue<int> queue;
  queue.Push(-1, Priority::kPrefetch);
  queue.Push(-2, Priority::kPrefetch);
  for (int i = 1; i <= 20; ++i) queue.Push(i, Priority::kCorrection);
  int correction = 0;
  for (const int prefetch : {-1, -2}) {
    for (uint32_t i = 0; i < UrgentQueue<int>::kOvertakes; ++i)
      EXPECT_EQ(queue.Pop(), ++correction);
    EXPECT_EQ(queue.Pop(), prefetch);
  }
  while (!queue.empty()) EXPECT_EQ(queue.Pop(), ++correction);
  EXPECT_EQ(correction, 20);
}

TEST(UrgentQueueTest, TheOneThatWouldBeServedLastMakesRoomForAMoreUrgentOne) {
  UrgentQueue<int> queue;
  queue.Push(1, Priority::kPrefetch);
  queue.Push(2, Priority::kPrefetch);
  queue.Push(3, Priority::kNormal);
  EXPECT_EQ(queue.PopLessUrgent(Priority::kPrefetch), std::nullopt);
  EXPECT_EQ(queue.PopLessUrgent(Priority::kNormal), 2);
  EXPECT_EQ(queue.PopLessUrgent(Priority::kNormal), 1);
  EXPECT_EQ(queue.PopLessUrgent(Priority::kNormal), std::nullopt);
  EXPECT_EQ(queue.PopLessUrgent(Priority::kCorrection), 3);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(UrgentQueueTest, WhoMustNotBeOvertakenIsLiftedWithAllThatCameBeforeIt) {
  UrgentQueue<int> queue;
  const auto is = [](int value) { return [value](int other) { return other == value; }; };
  queue.Push(1, Priority::kPrefetch);
  queue.Push(2, Priority::kCorrection);
  queue.Push(3, Priority::kNormal);
  queue.Push(4, Priority::kPrefetch);
  queue.Push(5, Priority::kNormal);
  queue.Push(6, Priority::kPrefetch);
  queue.Promote(Priority::kCorrection, is(7));
  EXPECT_EQ(queue.Next(), 2);
  queue.Promote(Priority::kNormal, is(3));
  EXPECT_EQ(queue.Next(), 2) << "it is not less urgent";
  queue.Promote(Priority::kCorrection, is(4));
  queue.Push(7, Priority::kCorrection);
  for (const int expected : {1, 2, 3, 4, 7}) {
    EXPECT_EQ(queue.next_priority(), Priority::kCorrection);
    EXPECT_EQ(queue.Pop(), expected);
  }
  EXPECT_EQ(queue.next_priority(), Priority::kNormal);
  EXPECT_EQ(queue.Pop(), 5);
  EXPECT_EQ(queue.Pop(), 6);
  EXPECT_TRUE(queue.empty());
}

TEST(UrgentQueueTest, WhoGivesUpLeavesNoTrace) {
  UrgentQueue<int> queue;
  for (int i = 0; i < 3; ++i) queue.Push(i, Priority::kNormal);
  queue.Erase(1);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.Pop(), 0);
  EXPECT_EQ(queue.Pop(), 2);
}

}  // namespace
}  // namespace quire
