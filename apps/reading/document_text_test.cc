// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/document_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::cli {
namespace {

using ::testing::HasSubstr;

std::string Text(std::string_view path, std::string_view bytes,
                 const ReadingOptions& options = {}) {
  const auto document = ReadDocument(path, bytes, options);
  EXPECT_TRUE(document.ok()) << document.status();
  return document.ok() ? document->text : "";
}

TEST(DocumentTextTest, TheKindIsThatOfNameAndContent) {
  EXPECT_EQ(KindOf("a/b.md", ""), TextKind::kMarkdown);
  EXPECT_EQ(KindOf("B.HTM", ""), TextKind::kHtml);
  EXPECT_EQ(KindOf("notes", "<html> "), TextKind::kHtml);
  EXPECT_EQ(KindOf("notes", " \n<!DOCTYPE HTML><p>"), TextKind::kHtml);
  EXPECT_EQ(KindOf("notes.txt", "<html>"), TextKind::kText);
  EXPECT_EQ(KindOf(".md", "x"), TextKind::kText);
  for (const TextKind kind : {TextKind::kText, TextKind::kMarkdown, TextKind::kHtml}) {
    EXPECT_EQ(ParseTextKind(Name(kind)), kind);
  }
  EXPECT_EQ(ParseTextKind("pdf"), std::nullopt);
}

TEST(DocumentTextTest, MarkupGoesUnlessItIsToStay) {
  const std::string markdown = "# Pumps\n\nThe *red* [pump](http://x.y).\n\n- one\n- two\n";
  EXPECT_EQ(Text("a.md", markdown), "Pumps\n\nThe red pump.\n\n  - one\n  - two\n");
  EXPECT_EQ(Text("a.md", markdown, {.raw = true}), markdown);
  EXPECT_EQ(Text("a.md", markdown, {.as = TextKind::kText}), markdown);
  EXPECT_EQ(Text("a.txt", "<p>x</p>", {.as = TextKind::kHtml}), "x\n");
  EXPECT_EQ(Text("a.txt", "<p>x</p>"), "<p>x</p>");
}

TEST(DocumentTextTest, CellsOfMarkdownTablesStay) {
  const std::string text = Text("a.md", "| pump | bar |\n|---|---|\n| red | 7 |\n");
  EXPECT_THAT(text, HasSubstr("pump"));
  EXPECT_THAT(text, HasSubstr("red | 7"));
}

TEST(DocumentTextTest, CharactersThatAreNoneBecomeTheReplacement) {
  const std::string noncharacters = "a\xEF\xBF\xBF b\xEF\xBF\xBE";
  const std::string replaced = "a\xEF\xBF\xBD b\xEF\xBF\xBD\n";
  EXPECT_EQ(Text("a.md", noncharacters), replaced);
  EXPECT_EQ(Text("a.html", noncharacters), replaced);
}

TEST(DocumentTextTest, ADocumentWithoutWordsIsRefused) {
  for (const auto& [path, bytes] : {std::pair("a.txt", ""),
                                    {"a.txt", " \n"},
                                    {"a.html", "<p>"},
                                    {"a.md", "<!-- nothing -->\n"}}) {
    const auto document = ReadDocument(path, bytes);
    EXPECT_EQ(document.status().code(), StatusCode::kInvalidArgument) << path << ": " << bytes;
  }
}

}  // namespace
}  // namespace quire::cli
