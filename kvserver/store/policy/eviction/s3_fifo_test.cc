// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/s3_fifo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;

TEST(S3FifoTest, WithoutTouchesItIsAFifo) {
  S3Fifo policy;
  for (uint64_t i = 0; i < 4; ++i) Insert(policy, i);
  EXPECT_THAT(EvictAll(policy), ElementsAre(0, 1, 2, 3));
}

// Small: 0 1 2. 0 was touched twice and moves to main; 1 once, which is not enough.
TEST(S3FifoTest, WhatIsTouchedTwiceMovesToMainAndTheRestLeaves) {
  S3Fifo policy;
  for (uint64_t i = 0; i < 3; ++i) Insert(policy, i);
  Touch(policy, 0, 2);
  Touch(policy, 1);
  EXPECT_EQ(EvictOne(policy), 1u);
  EXPECT_EQ(EvictOne(policy), 2u);
  EXPECT_EQ(EvictOne(policy), 0u);
}

// 0 leaves and is remembered. When it returns it enters main, so 1 and 2, which are newer but seen
// once, leave before it.
TEST(S3FifoTest, WhatComesBackWhileItIsRememberedEntersMain) {
  S3Fifo policy;
  for (uint64_t i = 0; i < 3; ++i) Insert(policy, i);
  EXPECT_EQ(EvictOne(policy), 0u);
  Insert(policy, 0);
  EXPECT_THAT(EvictAll(policy), ElementsAre(1, 2, 0));
}

TEST(S3FifoTest, WhatWasDeletedIsNotRemembered) {
  S3Fifo policy;
  for (uint64_t i = 0; i < 3; ++i) Insert(policy, i);
  policy.Remove(ExtentNumber(0));
  Insert(policy, 0);
  Insert(policy, 3);
  EXPECT_THAT(EvictAll(policy), ElementsAre(1, 2, 0, 3));
}

// 10 extents of 1000 bytes: 1..10. All but 1 move to main (touched twice). The small queue is then
// empty, less than a tenth, so main gives: 2 was touched there once and is requeued, 3 leaves.
TEST(S3FifoTest, InMainATouchIsASecondRound) {
  S3Fifo policy;
  for (uint64_t i = 1; i <= 10; ++i) Insert(policy, i, 1000);
  for (uint64_t i = 2; i <= 10; ++i) Touch(policy, i, 2);
  EXPECT_EQ(EvictOne(policy), 1u);
  EXPECT_EQ(policy.Victim(AnyExtent), ExtentNumber(2)) << "the others have moved to main";
  Touch(policy, 2);
  EXPECT_EQ(EvictOne(policy), 3u);
  for (const uint64_t next : {4, 5, 6, 7, 8, 9, 10, 2}) EXPECT_EQ(EvictOne(policy), next);
}

// Main holds 9 x 1000 bytes. A new extent of 500 bytes is less than a tenth of all: main gives. One
// of 2000 is more: it leaves itself.
TEST(S3FifoTest, TheSmallQueuesShareIsInBytes) {
  for (const auto& [bytes, victim] : {std::pair<uint64_t, uint64_t>{500, 2}, {2000, 11}}) {
    S3Fifo policy;
    for (uint64_t i = 1; i <= 10; ++i) Insert(policy, i, 1000);
    for (uint64_t i = 2; i <= 10; ++i) Touch(policy, i, 2);
    EXPECT_EQ(EvictOne(policy), 1u);
    EXPECT_EQ(policy.Victim(AnyExtent), ExtentNumber(2));  // moves the others to main
    Insert(policy, 11, bytes);
    EXPECT_EQ(EvictOne(policy), victim) << bytes;
  }
}

// Extents used once pass through the small queue. Frequently used ones stay.
TEST(S3FifoTest, AScanDoesNotDisplaceWhatIsUsedOften) {
  S3Fifo policy;
  for (uint64_t i = 0; i < 50; ++i) Insert(policy, i);
  for (uint64_t i = 0; i < 50; ++i) Touch(policy, i, 2);
  for (uint64_t i = 50; i < 100; ++i) Insert(policy, i);
  for (uint64_t i = 1000; i < 2000; ++i) {
    EXPECT_GE(EvictOne(policy), 50u);
    Insert(policy, i);
  }
}

// 100 extents are tracked throughout while 0..199 leave: about the last 90 of them are remembered.
TEST(S3FifoTest, WhatIsRememberedIsBoundedByTheBytesOfMain) {
  const auto enters_main = [](uint64_t number) {
    S3Fifo policy;
    for (uint64_t i = 0; i < 100; ++i) Insert(policy, i);
    for (uint64_t i = 100; i < 300; ++i) {
      EvictOne(policy);
      Insert(policy, i);
    }
    Insert(policy, number);
    Insert(policy, 300);  // enters the small queue, and leaves before those in main
    return EvictAll(policy).back() == number;
  };
  EXPECT_TRUE(enters_main(199));
  EXPECT_TRUE(enters_main(120));
  EXPECT_FALSE(enters_main(100));
  EXPECT_FALSE(enters_main(0));
}

}  // namespace
}  // namespace quire::kvserver::testing
