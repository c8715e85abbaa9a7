// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/tag_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::cli {
namespace {

using ::testing::HasSubstr;

TEST(TagTextTest, ValuesHaveTheTypeThatTheyLookLike) {
  const std::vector<std::string> texts = {
      "team=ops", "year=2026", "price=1.5", "draft=false", "room='12'",
      "empty=",   "eq=a=b",    "big=1e3",   "negative=-7"};
  const auto tags = ParseTags(texts);
  ASSERT_TRUE(tags.ok()) << tags.status();
  const Tags expected = {{"team", std::string("ops")},
                         {"year", int64_t{2026}},
                         {"price", 1.5},
                         {"draft", false},
                         {"room", std::string("12")},
                         {"empty", std::string()},
                         {"eq", std::string("a=b")},
                         {"big", 1000.0},
                         {"negative", int64_t{-7}}};
  EXPECT_EQ(*tags, expected);
}

TEST(TagTextTest, WhatIsPrintedReadsBack) {
  const Tags tags = {{"a", std::string("ops")},
                     {"b", int64_t{2026}},
                     {"c", 1000.0},
                     {"d", true},
                     {"e", std::string("12")},
                     {"f", std::string("true")},
                     {"g", std::string("'x'")}};
  std::vector<std::string> texts;
  for (const auto& [key, value] : tags) texts.push_back(FormatTags({{key, value}}));
  const auto again = ParseTags(texts);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, tags);
  EXPECT_EQ(FormatTags({{"a", std::string("ops")}, {"b", int64_t{7}}}), "a=ops b=7");
}

TEST(TagTextTest, BadTagsAreNamed) {
  const auto refusal = [](const std::vector<std::string>& texts) {
    const auto tags = ParseTags(texts);
    EXPECT_EQ(tags.status().code(), StatusCode::kInvalidArgument);
    return std::string(Message(tags.status()));
  };
  EXPECT_THAT(refusal({"team"}), HasSubstr("tag 'team' has no '='"));
  EXPECT_THAT(refusal({"team=a", "team=b"}), HasSubstr("tag 'team' is given twice"));
  EXPECT_THAT(refusal({"Team=a"}), HasSubstr("Team"));
  EXPECT_THAT(refusal({"=a"}), HasSubstr("1..64"));
}

}  // namespace
}  // namespace quire::cli
