// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/filter/document_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::kvserver::testing {
namespace {

Document SomeDocument() {
  Document document;
  document.name = {"books", "Moby Dick", 3};
  document.model = "llama";
  document.source = "https://host/moby.html";
  document.num_tokens = 1000;
  document.bytes = 20'000'000;
  document.created_unix_micros = 1'767'225'600'000'000;  // 2026-01-01T00:00:00Z
  document.tags = {{"team", "ops"}, {"pages", int64_t{12}}, {"score", 0.5}, {"public", true}};
  return document;
}

bool Matches(const std::string& text) {
  const auto filter = DocumentFilter::Parse(text);
  EXPECT_TRUE(filter.ok()) << text << ": " << filter.status();
  const bool matches = filter.ok() && filter->Matches(SomeDocument());
  EXPECT_TRUE(!matches || filter->MayMatch(SomeDocument().name)) << text;
  return matches;
}

bool MayMatch(const std::string& text) {
  return DocumentFilter::Parse(text).value().MayMatch(SomeDocument().name);
}

std::string ErrorOf(const std::string& text) {
  const auto filter = DocumentFilter::Parse(text);
  EXPECT_TRUE(IsInvalidArgument(filter.status())) << text;
  return std::string(Message(filter.status()));
}

TEST(DocumentFilterTest, EveryFieldIsComparedInItsType) {
  for (const char* yes : {"",
                          "  ",
                          "name='Moby Dick'",
                          "name~Moby",
                          "collection=books",
                          "version=3",
                          "version>=3",
                          "tokens<1001",
                          "bytes>=20MB",
                          "bytes<1GiB",
                          "created=2026-01-01",
                          "created>2025-12-31",
                          "created<=2026-01-01T00:00:00Z",
                          "created=2026-01-01T01:00:00+01:00",
                          "expires>2100-01-01",
                          "used<1970-01-02",
                          "state=ready",
                          "pinned=false",
                          "latest!=true",
                          "team=ops",
                          "team!=dev",
                          "pages>9",
                          "pages<=12",
                          "score>0.25",
                          "public=true",
                          "source~'host/'",
                          "model>alpha"}) {
    EXPECT_TRUE(Matches(yes)) << yes;
  }
  for (const char* no : {"name=Moby", "version=4", "tokens>1000", "created>2026-01-01", "team=dev",
                         "pages>100", "public!=true", "pages=many", "bytes<20MB"}) {
    EXPECT_FALSE(Matches(no)) << no;
  }
}

TEST(DocumentFilterTest, NotBindsCloserThanAndAndAndThanOr) {
  EXPECT_TRUE(Matches("team=ops or team=dev and version=9"));
  EXPECT_FALSE(Matches("(team=ops or team=dev) and version=9"));
  EXPECT_TRUE(Matches("not team=dev and version=3"));
  EXPECT_FALSE(Matches("NOT (team=ops AND version=3)"));
  EXPECT_TRUE(Matches("not not team=ops"));
}

TEST(DocumentFilterTest, ANameAloneOftenSaysNo) {
  for (const char* const no : {"name~whale", "collection=maps", "version>3", "not name~Moby",
                               "name~whale and team=ops", "team=ops and name~whale",
                               "name~whale or collection=maps", "not (name~Moby or team=ops)"}) {
    EXPECT_FALSE(MayMatch(no)) << no;
  }
  for (const char* const maybe :
       {"", "team=dev", "name~whale or team=dev", "team=dev or name~whale", "not team=ops",
        "name~Moby and team=dev", "not (name~whale and team=ops)"}) {
    EXPECT_TRUE(MayMatch(maybe)) << maybe;
  }
}

TEST(DocumentFilterTest, AMissingTagMatchesUnequalOnly) {
  EXPECT_FALSE(Matches("lang=en"));
  EXPECT_FALSE(Matches("lang<en"));
  EXPECT_TRUE(Matches("lang!=en"));
  EXPECT_TRUE(Matches("not lang=en"));
}

TEST(DocumentFilterTest, ErrorsSayWhereAndWhatMayStandThere) {
  EXPECT_EQ(ErrorOf("team="), "filter, position 6: expected a value, found the end");
  EXPECT_EQ(ErrorOf("team ops"), "filter, position 6: expected = != < <= > >= or ~, found 'ops'");
  EXPECT_EQ(ErrorOf("(team=ops"), "filter, position 10: expected and, or, or ')', found the end");
  EXPECT_EQ(ErrorOf("team=ops)"), "filter, position 9: expected and, or, or the end, found ')'");
  EXPECT_EQ(ErrorOf("name='x"), "filter, position 6: the quote does not end");
  EXPECT_NE(ErrorOf("created>yesterday").find("position 9: 'yesterday' is not a date"),
            std::string::npos);
  EXPECT_NE(ErrorOf("bytes>10XB").find("20MB"), std::string::npos);
  EXPECT_NE(ErrorOf("created=2026-02-30").find("not a date"), std::string::npos);
  EXPECT_NE(ErrorOf("state=gone").find("ready, ingesting"), std::string::npos);
  EXPECT_NE(ErrorOf("state<ready").find("no order"), std::string::npos);
  EXPECT_NE(ErrorOf("tokens~1").find("a part of a text"), std::string::npos);
  EXPECT_NE(ErrorOf("Team=ops").find("fields: name"), std::string::npos);
  EXPECT_NE(ErrorOf("a!b").find("position 2"), std::string::npos);
  EXPECT_NE(ErrorOf("a=\xff").find("position 3"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string(5000, ' ')).find("4096"), std::string::npos);
}

TEST(DocumentFilterTest, DepthIsBoundedAndLengthCostsNoDepth) {
  EXPECT_NE(ErrorOf(std::string(100, '(')).find("parentheses"), std::string::npos);
  std::string wide = "version=3";
  while (wide.size() < 4000) wide += " and version=3";
  EXPECT_TRUE(Matches(wide));
}

TEST(DocumentFilterTest, SaysWhatItNames) {
  const auto filter = DocumentFilter::Parse("state=failed and lang=en");
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(filter->names_state());
  ASSERT_EQ(filter->Tags().size(), 1u);
  EXPECT_EQ(filter->Tags()[0]->key(), "lang");
  EXPECT_EQ(filter->Tags()[0]->position(), 18u);
}

}  // namespace
}  // namespace quire::kvserver::testing
