// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::cli {
namespace {

using ::testing::HasSubstr;

std::string Refusal(std::string_view bytes) {
  const auto text = TextOfBytes(bytes);
  if (text.ok()) return "accepted";
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  return std::string(Message(text.status()));
}

TEST(EncodingTest, Utf8IsTakenAsItIsAndItsMarkIsDropped) {
  for (const std::string text : {"plain", "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80", "BZh is a word"}) {
    EXPECT_EQ(TextOfBytes(text).value_or(""), text);
    const std::string marked = "\xEF\xBB\xBF" + text;
    EXPECT_EQ(TextOfBytes(marked).value_or(""), text);
  }
}

TEST(EncodingTest, OtherEncodingsAreNamedByTheirMark) {
  EXPECT_THAT(Refusal(std::string("\xFF\xFEh\0i\0", 6)), HasSubstr("iconv -f UTF-16 -t UTF-8"));
  EXPECT_THAT(Refusal(std::string("\xFE\xFF\0h", 4)), HasSubstr("UTF-16 by its mark at byte 0"));
  EXPECT_THAT(Refusal(std::string("\xFF\xFE\0\0h\0\0\0", 8)), HasSubstr("iconv -f UTF-32"));
  EXPECT_THAT(Refusal(std::string("\0\0\xFE\xFF\0\0\0h", 8)), HasSubstr("iconv -f UTF-32"));
}

TEST(EncodingTest, TheFirstWrongByteIsNamedByItsOffsetInTheFile) {
  EXPECT_THAT(Refusal("caf\xE9 au lait"), HasSubstr("not UTF-8 at byte 3 (0xE9)"));
  EXPECT_THAT(Refusal("\xEF\xBB\xBF"
                      "caf\xE9 au lait"),
              HasSubstr("not UTF-8 at byte 6 (0xE9)"));
  EXPECT_THAT(Refusal(std::string("ab\0c\xE9", 5)), HasSubstr("binary: a NUL at byte 2"));
  EXPECT_THAT(Refusal(std::string("ab\xE9\0c", 5)), HasSubstr("not UTF-8 at byte 2"));
}

TEST(EncodingTest, BinaryFormatsAreNamed) {
  EXPECT_THAT(Refusal("%PDF-1.7\n%\xE2\xE3\xCF\xD3"), HasSubstr("a PDF"));
  EXPECT_THAT(Refusal(std::string("PK\x03\x04\x14\0", 6)), HasSubstr("a ZIP archive"));
  EXPECT_THAT(Refusal("\x89PNG\r\n\x1A\n"), HasSubstr("a PNG image"));
}

}  // namespace
}  // namespace quire::cli
