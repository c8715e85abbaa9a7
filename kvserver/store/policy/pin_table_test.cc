// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/pin_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

TEST(PinTableTest, ASegmentIsPinnedUntilAsManyUnpinsAsPins) {
  PinTable pins(1000);
  ASSERT_TRUE(pins.Pin(SegmentNumber(1), 600).ok());
  ASSERT_TRUE(pins.Pin(SegmentNumber(1), 600).ok()) << "counts once";
  EXPECT_EQ(pins.pinned_bytes(), 600u);
  EXPECT_TRUE(pins.Unpin(SegmentNumber(1)).ok());
  EXPECT_TRUE(pins.IsPinned(SegmentNumber(1)));
  EXPECT_TRUE(pins.Unpin(SegmentNumber(1)).ok());
  EXPECT_FALSE(pins.IsPinned(SegmentNumber(1)));
  EXPECT_EQ(pins.pinned_bytes(), 0u);
  EXPECT_EQ(pins.Unpin(SegmentNumber(1)).code(), StatusCode::kNotFound);
}

// Promise 6: nothing is unbounded. Over a limit the caller gets RESOURCE_EXHAUSTED.
TEST(PinTableTest, Promise6OverTheLimitAPinIsRefusedAndChangesNothing) {
  PinTable pins(1000);
  ASSERT_TRUE(pins.Pin(SegmentNumber(1), 600).ok());
  const Status status = pins.Pin(SegmentNumber(2), 401);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("600 of 1000"));
  EXPECT_FALSE(pins.IsPinned(SegmentNumber(2)));
  EXPECT_EQ(pins.pinned_bytes(), 600u);
  EXPECT_TRUE(pins.Pin(SegmentNumber(2), 400).ok());
  EXPECT_EQ(pins.Pin(SegmentNumber(3), ~uint64_t{0}).code(), StatusCode::kResourceExhausted);
}

TEST(PinTableTest, WhatIsDeletedLosesAllItsPins) {
  PinTable pins(1000);
  ASSERT_TRUE(pins.Pin(SegmentNumber(1), 600).ok());
  ASSERT_TRUE(pins.Pin(SegmentNumber(1), 600).ok());
  pins.Forget(SegmentNumber(1));
  pins.Forget(SegmentNumber(2));
  EXPECT_FALSE(pins.IsPinned(SegmentNumber(1)));
  EXPECT_EQ(pins.pinned_bytes(), 0u);
}

}  // namespace
}  // namespace quire::kvserver::testing
