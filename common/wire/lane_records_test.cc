// SPDX-License-Identifier: Apache-2.0
#include "common/wire/lane_records.h"

#include <gtest/gtest.h>

namespace quire::wire {
namespace {

using namespace std::string_literals;

TEST(LaneRecordsTest, UnitsSurviveTheWayAsLittleEndianArrays) {
  const LaneUnits units = {.slots = {1, 0x01020304},
                           .generations = {2, 3},
                           .pages = {4, 5},
                           .replaced = {-1, 6},
                           .crc32c = {0xffffffff, 7}};
  std::string bytes = "before";
  EncodeLaneUnits(units, &bytes);
  EXPECT_EQ(bytes,
            "\1\0\0\0\4\3\2\1"
            "\2\0\0\0\3\0\0\0"
            "\4\0\0\0\5\0\0\0"
            "\xff\xff\xff\xff\6\0\0\0"
            "\xff\xff\xff\xff\7\0\0\0"s);
  LaneUnits back = {.slots = {9}, .generations = {9}, .pages = {9}, .replaced = {9}, .crc32c = {9}};
  EXPECT_EQ(DecodeLaneUnits(bytes, 2, &back), OkStatus());
  EXPECT_EQ(back, units);
}

TEST(LaneRecordsTest, UnitsOfAnotherLengthAreRefusedAndChangeNothing) {
  LaneUnits units;
  units.Resize(3);
  std::string bytes;
  EncodeLaneUnits(units, &bytes);
  LaneUnits back = {.slots = {9}, .generations = {9}, .pages = {9}, .replaced = {9}, .crc32c = {9}};
  const LaneUnits before = back;
  EXPECT_TRUE(IsInvalidArgument(DecodeLaneUnits(bytes, 2, &back)));
  EXPECT_TRUE(IsInvalidArgument(DecodeLaneUnits(bytes, 4, &back)));
  EXPECT_TRUE(IsInvalidArgument(DecodeLaneUnits(bytes + '\0', 3, &back)));
  EXPECT_TRUE(IsInvalidArgument(DecodeLaneUnits("", SIZE_MAX, &back)));
  EXPECT_EQ(back, before);
  EXPECT_EQ(DecodeLaneUnits("", 0, &back), OkStatus());
  EXPECT_EQ(back, LaneUnits());
}

TEST(LaneRecordsTest, SlotsSurviveTheWayAndOtherLengthsAreRefused) {
  const LaneSlots slots = {.pages = {-1, 7}, .generations = {0, 9}};
  std::string bytes = "before";
  EncodeLaneSlots(slots.pages, slots.generations, &bytes);
  EXPECT_EQ(bytes, "\xff\xff\xff\xff\7\0\0\0\0\0\0\0\x9\0\0\0"s);
  LaneSlots back;
  EXPECT_EQ(DecodeLaneSlots(bytes, 2, &back), OkStatus());
  EXPECT_EQ(back, slots);
  EXPECT_TRUE(IsInvalidArgument(DecodeLaneSlots(bytes, 1, &back)));
  EXPECT_TRUE(IsInvalidArgument(DecodeLaneSlots(bytes.substr(1), 2, &back)));
  EXPECT_EQ(back, slots);
}

}  // namespace
}  // namespace quire::wire
