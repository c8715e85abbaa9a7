// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/room_sample.h"

#include <gtest/gtest.h>

#include <chrono>

namespace quire::kvserver {
namespace {

constexpr uint64_t kGibibyte = uint64_t{1} << 30;
constexpr TimePoint kStart = TimePoint() + std::chrono::hours(1);

TEST(RoomSampleTest, NothingIsKnownBeforeTheFirstSample) {
  RoomSample sample;
  EXPECT_FALSE(sample.Take(0, kStart));
}

TEST(RoomSampleTest, PlentyIsKnownForAMoment) {
  RoomSample sample;
  sample.Note(2 * kGibibyte, kStart);
  EXPECT_TRUE(sample.Take(100, kStart));
  EXPECT_TRUE(sample.Take(100, kStart + RoomSample::kTrusted - Duration(1)));
  EXPECT_FALSE(sample.Take(100, kStart + RoomSample::kTrusted));
}

TEST(RoomSampleTest, WhatIsTakenIsNotThereAgain) {
  RoomSample sample;
  sample.Note(2 * kGibibyte, kStart);
  EXPECT_TRUE(sample.Take(kGibibyte - 100, kStart));
  EXPECT_FALSE(sample.Take(101, kStart));
  EXPECT_TRUE(sample.Take(100, kStart));
}

TEST(RoomSampleTest, AFullDiskIsAskedEveryTime) {
  RoomSample sample;
  for (const uint64_t free_bytes : {uint64_t{0}, kGibibyte}) {
    sample.Note(free_bytes, kStart);
    EXPECT_FALSE(sample.Take(1, kStart));
  }
  sample.Note(3 * kGibibyte, kStart);
  sample.Note(100, kStart);
  EXPECT_FALSE(sample.Take(1, kStart)) << "the last sample counts";
}

}  // namespace
}  // namespace quire::kvserver
