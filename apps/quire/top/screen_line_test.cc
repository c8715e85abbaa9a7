// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/screen_line.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::cli {
namespace {

TEST(ScreenLineTest, WhatDoesNotFitIsCutOffBetweenCodePoints) {
  ScreenLine line(6);
  line.Add("ab").Add("█░é", Style::kBold).Add("xyz");
  EXPECT_EQ(line.plain(), "ab█░éx");
  EXPECT_EQ(line.columns(), 6u);
  EXPECT_EQ(line.styled(), "ab\x1b[1m█░é\x1b[0mx");
}

TEST(ScreenLineTest, TextFromElsewhereSteersNoTerminal) {
  ScreenLine line(40);
  line.Add(
      "a\x1b[2Jb\r\n\x7f\xc2\x9b"
      "c\xff");
  EXPECT_EQ(line.plain().find('\x1b'), std::string::npos);
  EXPECT_EQ(line.plain(), "a?[2Jb????c?");
}

TEST(ScreenLineTest, ColumnsAreMetOrFollowABlank) {
  ScreenLine line(40);
  line.Add("ab").To(4).Add("c").RightTo(9, "é").To(3).Add("!");
  EXPECT_EQ(line.plain(), "ab  c   é !");
}

}  // namespace
}  // namespace quire::cli
