// SPDX-License-Identifier: Apache-2.0
#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/random.h"

namespace quire {
namespace {

constexpr std::string_view kText = "Café déjà vu 中文 🙂\n";

TEST(Utf8Test, WholeTextHasNoInvalidByte) {
  EXPECT_EQ(FirstInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8(kText), std::nullopt);
  EXPECT_EQ(ReplaceInvalidUtf8(kText), kText);
  // The first and last characters of every length, and those around the surrogates.
  for (const char* character :
       {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(Utf8Length(character), std::string(character).size());
  }
}

struct Broken {
  std::string text;
  size_t at;             ///< Offset of the first invalid byte.
  std::string replaced;  ///< Expected text, with '?' for U+FFFD.
};

std::string WithQuestionMarks(std::string text) {
  for (size_t at = 0; (at = text.find(kReplacementCharacter)) != std::string::npos;) {
    text.replace(at, kReplacementCharacter.size(), "?");
  }
  return text;
}

TEST(Utf8Test, WhatIsNoCharacterIsFoundAndReplaced) {
  const std::vector<Broken> all = {
      {"\xff", 0, "?"},
      {"ab\x80z", 2, "ab?z"},            // A stray continuation byte.
      {"a\xc0\xaf", 1, "a??"},           // Overlong.
      {"\xe0\x80\x80", 0, "???"},        // Overlong.
      {"\xed\xa0\x80", 0, "???"},        // A surrogate.
      {"\xf4\x90\x80\x80", 0, "????"},   // Past U+10FFFF.
      {"\xf5z", 0, "?z"},                // Never a first byte.
      {"Caf\xc3", 3, "Caf?"},            // Cut after one of two bytes.
      {"\xe4\xb8", 0, "?"},              // Cut after two of three bytes.
      {"\xf0\x9f\x99z", 0, "?z"},        // Cut after three of four bytes.
      {"\xc3\xc3\xa9", 0, "?\xc3\xa9"},  // A character follows.
  };
  for (const Broken& broken : all) {
    EXPECT_EQ(FirstInvalidUtf8(broken.text), broken.at) << broken.replaced;
    EXPECT_EQ(WithQuestionMarks(ReplaceInvalidUtf8(broken.text)), broken.replaced);
    EXPECT_EQ(FirstInvalidUtf8(ReplaceInvalidUtf8(broken.text)), std::nullopt);
  }
}

TEST(Utf8Test, ATextIsCutWhereACharacterEnds) {
  EXPECT_EQ(CutUtf8("Café", 9), "Café");
  EXPECT_EQ(CutUtf8("Café", 5), "Café");
  EXPECT_EQ(CutUtf8("Café", 4), "Caf");
  EXPECT_EQ(CutUtf8("🙂🙂", 7), "🙂");
  EXPECT_EQ(CutUtf8("🙂", 3), "");
  EXPECT_EQ(CutUtf8("🙂", 0), "");
}

TEST(Utf8JoinerTest, ACharacterComesWithItsLastByte) {
  Utf8Joiner joiner;
  EXPECT_EQ(joiner.Add("Caf\xc3"), "Caf");
  EXPECT_EQ(joiner.Add("\xa9\xf0\x9f"), "é");
  EXPECT_EQ(joiner.Add("\x99"), "");
  EXPECT_EQ(joiner.Add("\x82!"), "🙂!");
  EXPECT_EQ(joiner.Finish(), "");
}

TEST(Utf8JoinerTest, ABeginningWithoutAnEndIsReplacedOnce) {
  Utf8Joiner joiner;
  EXPECT_EQ(joiner.Add("\xf0\x9f\x99"), "");
  EXPECT_EQ(joiner.Finish(), kReplacementCharacter);
  EXPECT_EQ(joiner.Finish(), "");
  EXPECT_EQ(joiner.Add("\xe4\xb8"), "");
  EXPECT_EQ(WithQuestionMarks(joiner.Add("z")), "?z");
}

TEST(Utf8JoinerTest, PiecesMakeTheSameTextHoweverTheyAreCut) {
  SeededRandom random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text(random.Below(24), '\0');
    for (char& c : text) {
      c = random.Below(3) == 0 ? static_cast<char>(random.Below(256))
                               : kText[random.Below(kText.size())];
    }
    Utf8Joiner joiner;
    std::string joined;
    for (size_t at = 0; at < text.size();) {
      const size_t count = 1 + random.Below(3);
      const std::string piece = joiner.Add(text.substr(at, count));
      EXPECT_EQ(FirstInvalidUtf8(piece), std::nullopt);
      joined += piece;
      at += count;
    }
    joined += joiner.Finish();
    EXPECT_EQ(joined, ReplaceInvalidUtf8(text));
  }
}

}  // namespace
}  // namespace quire
