// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> Matches(const std::string& pattern, const std::string& text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> found;
  const Status status = regex->ForEach(
      text, [&](size_t begin, size_t end) { found.push_back(text.substr(begin, end - begin)); });
  EXPECT_TRUE(status.ok()) << status;
  return found;
}

TEST(Regex, FindsAllMatchesFromTheLeft) {
  EXPECT_THAT(Matches(R"(\p{L}+|\p{N})", "ab 12 \u00e9\u6570"),
              ElementsAre("ab", "1", "2", "\u00e9\u6570"));
  EXPECT_THAT(Matches("b*", "ab"), ElementsAre("", "b", ""));
}

TEST(Regex, WhiteSpaceIsUnicodes) {
  const std::string space = "\t\u0085\u00a0\u2003\u3000";
  EXPECT_THAT(Matches(R"(\s)", space), SizeIs(5));
  EXPECT_THAT(Matches(R"([^\s])", space + "x"), ElementsAre("x"));
  EXPECT_THAT(Matches(R"(\S+)", space + "xy" + space), ElementsAre("xy"));
}

TEST(Regex, CategoriesHaveTheCharactersOfUnicode16) {
  EXPECT_THAT(Matches(R"(\p{L})", "\U00031350"), SizeIs(1));  // Unicode 15
  EXPECT_THAT(Matches(R"([\p{M}x])", "\u0897"), SizeIs(1));   // Unicode 16
  EXPECT_THAT(Matches(R"(\P{L})", "\U00031350a1"), ElementsAre("1"));
}

TEST(Regex, LongRunsOfSpacesAndLettersAreFound) {
  const std::string text = std::string(1 << 20, ' ') + std::string(1 << 20, 'a');
  EXPECT_THAT(Matches(R"(\s+(?!\S)|\s+|\p{L}+)", text), SizeIs(3));
}

TEST(Regex, WhatDoesNotComeToAnEndIsAnError) {
  const auto regex = Regex::Compile("(a+)+$");
  ASSERT_TRUE(regex.ok()) << regex.status();
  const Status status = regex->ForEach(std::string(64, 'a') + "b", [](size_t, size_t) {});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gave up"));
}

TEST(Regex, MistakesAreNamedWithTheirPlace) {
  const auto regex = Regex::Compile("ab(");
  ASSERT_FALSE(regex.ok());
  EXPECT_EQ(regex.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(regex.status().message()), HasSubstr("near byte 3"));
}

TEST(Regex, LiteralsAreFoundAsTheyAre) {
  const Regex literal = Regex::Literal("a.");
  std::vector<size_t> begins;
  EXPECT_TRUE(
      literal.ForEach("xa.aba.", [&](size_t begin, size_t) { begins.push_back(begin); }).ok());
  EXPECT_THAT(begins, ElementsAre(1, 5));
}

}  // namespace
}  // namespace quire::worker
