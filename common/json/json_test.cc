// SPDX-License-Identifier: Apache-2.0
#include "common/json/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto value = ParseJson(text, "x.json");
  return value.ok() ? "" : std::string(value.status().message());
}

TEST(ParseJson, NestingIsCountedOutsideStringsOnly) {
  EXPECT_EQ(ErrorOf(R"({"[[[[[[[[[[[[[[[[[[[[": "\"[[[[[[[[[[[[[[[[[[[["})"), "");
  EXPECT_EQ(ErrorOf(std::string(16, '[') + std::string(16, ']')), "");
  EXPECT_THAT(ErrorOf(std::string(17, '[') + std::string(17, ']')), HasSubstr("deeper than 16"));
  EXPECT_THAT(ErrorOf(std::string(1 << 20, '{')), HasSubstr("deeper than 16"));
}

TEST(ParseJson, AKeyGivenTwiceInOneObjectIsRefused) {
  EXPECT_EQ(ErrorOf(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"), "");
  EXPECT_THAT(ErrorOf(R"({"b": [{"a": 1, "a": 2}]})"), HasSubstr("\"a\" is given twice"));
}

TEST(ParseJson, DamagedTextIsRefused) {
  for (const char* text :
       {"", "{", "}", "nul", "{\"a\" 1}", "\"\xff\"", "1 2", "{]}", "\"", "\"\\"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("x.json: not valid JSON")) << text;
  }
}

TEST(JsonFields, NullCountsAsAbsentButAsGiven) {
  const nlohmann::json object = nlohmann::json::parse(R"({"n": null, "u": 7, "d": 2.5, "s": "x"})");
  const JsonFields fields(object, "x.json");
  EXPECT_FALSE(fields.Has("n"));
  EXPECT_TRUE(fields.Given("n"));
  EXPECT_EQ(*fields.UInt("n", 1, 9, 3), 3u);
  EXPECT_EQ(*fields.UInt("u", 1, 9), 7u);
  EXPECT_EQ(*fields.Number("d", 0, 3), 2.5);
  EXPECT_EQ(*fields.Number("u", 0, 9), 7.0);
  EXPECT_EQ(*fields.String("s", ""), "x");
  EXPECT_EQ(*fields.Bool("b", true), true);
  for (const Status& status : {fields.UInt("u", 1, 6).status(), fields.UInt("s", 1, 6).status(),
                               fields.UInt("z", 1, 6).status(), fields.Number("d", 3, 4).status(),
                               fields.Bool("u", true).status(), fields.String("u", "").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("x.json: "));
  }
}

TEST(ReadTextFile, IsBoundedAndNamesTheFile) {
  const testing::TempDir directory;
  std::ofstream(directory / "f") << "12345";
  EXPECT_EQ(*ReadTextFile(directory / "f", 5), "12345");
  EXPECT_EQ(ReadTextFile(directory / "f", 4).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadTextFile(directory / "g", 4).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReadTextFile(directory.path(), 4).ok());
}

TEST(JsonFields, AFieldThatNobodyAskedForIsNamed) {
  const nlohmann::json object = {{"a", 1u}, {"b", "x"}, {"c", nullptr}, {"d", 4}};
  const JsonFields fields(object, "file");
  EXPECT_TRUE(fields.UInt("a", 0, 9).ok());
  EXPECT_FALSE(fields.Given("absent"));
  constexpr std::string_view kHarmless[] = {"d"};
  const Status left = fields.CheckAllRead(kHarmless);
  EXPECT_EQ(left.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(left)), HasSubstr("file: b is \"x\""));
  EXPECT_TRUE(fields.Has("b"));
  EXPECT_EQ(fields.CheckAllRead(kHarmless), OkStatus());
  EXPECT_FALSE(fields.CheckAllRead().ok());
}

}  // namespace
}  // namespace quire::worker
