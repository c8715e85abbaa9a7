// SPDX-License-Identifier: Apache-2.0
#include "common/documents/document_rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "common/documents/document_state.h"
#include "common/documents/page_strip.h"

namespace quire {
namespace {

TEST(DocumentRulesTest, KeysOfTagsAreShortAndPlain) {
  for (const char* good : {"a", "team", "team.name", "a-1_b"}) EXPECT_TRUE(CheckTagKey(good).ok());
  for (const std::string& bad : {std::string(), std::string("1a"), std::string("A"),
                                 std::string("a b"), std::string("ä"), std::string(65, 'a')}) {
    EXPECT_TRUE(IsInvalidArgument(CheckTagKey(bad))) << bad;
  }
}

TEST(DocumentRulesTest, ValuesOfTagsArePrintableAndFinite) {
  EXPECT_TRUE(CheckTags({{"a", "é"}, {"b", int64_t{-1}}, {"c", 0.5}, {"d", false}}).ok());
  EXPECT_TRUE(IsInvalidArgument(CheckTags({{"a", std::string(257, 'x')}})));
  EXPECT_TRUE(IsInvalidArgument(CheckTags({{"a", std::string("x\n")}})));
  EXPECT_TRUE(IsInvalidArgument(CheckTags({{"a", std::string("\xff")}})));
  EXPECT_TRUE(IsInvalidArgument(CheckTags({{"a", std::numeric_limits<double>::infinity()}})));
}

TEST(DocumentRulesTest, ADocumentHasAtMost32Tags) {
  Tags tags;
  for (int i = 0; i < 32; ++i) tags["t" + std::to_string(i)] = true;
  EXPECT_TRUE(CheckTags(tags).ok());
  tags["more"] = true;
  EXPECT_TRUE(IsInvalidArgument(CheckTags(tags)));
}

TEST(DocumentRulesTest, SourcesReasonsAndExtrasAreBounded) {
  EXPECT_TRUE(CheckSource("").ok());
  EXPECT_TRUE(CheckSource("https://host/päge").ok());
  EXPECT_TRUE(IsInvalidArgument(CheckSource(std::string(1025, 'x'))));
  EXPECT_TRUE(IsInvalidArgument(CheckSource("a\tb")));
  EXPECT_TRUE(CheckFailure("no room").ok());
  EXPECT_TRUE(IsInvalidArgument(CheckFailure("")));
  EXPECT_TRUE(CheckExtraName("0.summary").ok());
  EXPECT_TRUE(IsInvalidArgument(CheckExtraName("a/b")));
  EXPECT_TRUE(IsInvalidArgument(CheckExtraName("")));
}

TEST(DocumentRulesTest, StatesAreFoundByTheirNames) {
  for (const DocumentState state : {DocumentState::kReady, DocumentState::kIngesting,
                                    DocumentState::kFailed, DocumentState::kExpired}) {
    EXPECT_EQ(StateNamed(StateName(state)), state);
  }
  EXPECT_EQ(StateName(DocumentState::kIngesting), "ingesting");
  EXPECT_FALSE(StateNamed("READY").has_value());
}

TEST(DocumentRulesTest, AStripHasTheHottestPageOfEachCell) {
  const std::vector<uint32_t> uses = {0, 3, 1, 0, 0, 9, 2};
  EXPECT_EQ(CellsOf(uses, 80), uses);
  EXPECT_EQ(CellsOf(uses, 3), (std::vector<uint32_t>{3, 1, 9}));
  EXPECT_EQ(CellBounds(7, 3), (std::vector<size_t>{0, 2, 4, 7}));
  EXPECT_EQ(CellsOf(uses, 1), (std::vector<uint32_t>{9}));
  EXPECT_TRUE(CellsOf({}, 3).empty());
}

}  // namespace
}  // namespace quire
