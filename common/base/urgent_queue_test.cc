// SPDX-License-Identifier: Apache-2.0
#include "common/base/urgent_queue.h"

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
