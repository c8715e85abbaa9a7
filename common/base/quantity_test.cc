// SPDX-License-Identifier: Apache-2.0
#include "common/base/quantity.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

TEST(QuantityTest, BytesHaveUnitsOfThousandsAndOf1024) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("512"), 512u);
  EXPECT_EQ(*ParseBytes("512B"), 512u);
  EXPECT_EQ(*ParseBytes("64KiB"), uint64_t{64} << 10);
  EXPECT_EQ(*ParseBytes("64kb"), 64'000u);
  EXPECT_EQ(*ParseBytes("3M"), 3'000'000u);
  EXPECT_EQ(*ParseBytes("4gib"), uint64_t{4} << 30);
  EXPECT_EQ(*ParseBytes("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(*ParseBytes("16383PiB"), uint64_t{16383} << 50);
}

TEST(QuantityTest, SecondsHaveUnitsUpToWeeks) {
  EXPECT_EQ(ParseSeconds("90")->count(), 90);
  EXPECT_EQ(ParseSeconds("90s")->count(), 90);
  EXPECT_EQ(ParseSeconds("15m")->count(), 900);
  EXPECT_EQ(ParseSeconds("12H")->count(), 43200);
  EXPECT_EQ(ParseSeconds("7d")->count(), 604800);
  EXPECT_EQ(ParseSeconds("2w")->count(), 1209600);
}

TEST(QuantityTest, WhatIsNoQuantityIsQuoted) {
  for (const char* bad : {"", "x", "GiB", "-1", "+1", "1.5GiB", "1 GiB", "4GiBs", "4EiB", "0x10",
                          "16384PiB", "18446744073709551616"}) {
    const Status status = ParseBytes(bad).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(Message(status).find("'" + std::string(bad) + "'"), std::string_view::npos);
  }
  for (const char* bad :
       {"", "d", "-1d", "1.5h", "7 d", "1d12h", "3y", "9223372036854775808", "106751991167301d"}) {
    EXPECT_EQ(ParseSeconds(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(QuantityTest, SecondsAreWrittenInTheLargestWholeUnit) {
  for (const char* text : {"0s", "1s", "90s", "15m", "90m", "36h", "7d", "365d"}) {
    EXPECT_EQ(FormatSeconds(*ParseSeconds(text)), text);
  }
  EXPECT_EQ(FormatSeconds(std::chrono::seconds(7200)), "2h");
}

}  // namespace
}  // namespace quire
