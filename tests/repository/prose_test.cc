// SPDX-License-Identifier: Apache-2.0
//
// Pages that people read first are in short sentences, and none begins with a word that makes its
// subject hard to find.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

/// Words in backquotes count as one, and what stands in parentheses is not counted.
constexpr size_t kMostWordsOfASentence = 25;

std::vector<std::string> PagesToRead() {
  std::vector<std::string> pages = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md",
                                    "bench/results/README.md", "deploy/README.md"};
  for (const std::string& page : FilesUnder("docs", {".md"})) {
    if (!page.starts_with("docs/tutorials/")) pages.push_back(page);
  }
  return pages;
}

/// Paragraphs, items of lists and cells of tables, each as one line of text, without code and
/// headings. Rows of metrics are texts of the code.
class Blocks {
 public:
  static std::vector<std::string> Of(const std::vector<std::string>& lines) {
    Blocks blocks;
    for (const std::string& line : lines) blocks.Take(line);
    blocks.End();
    return blocks.blocks_;
  }

 private:
  void Take(const std::string& line) {
    static const std::regex item(R"(^\s*([-*]|\d+\.) .*)");
    if (line.starts_with("```")) in_code_ = !in_code_;
    const bool is_code = in_code_ || (block_.empty() && line.starts_with("    "));
    const bool is_text = !is_code && !line.empty() && !line.starts_with("#") &&
                         !line.starts_with("```") && !line.starts_with("| `quire_");
    if (!is_text || line.starts_with("|") || std::regex_match(line, item)) End();
    if (!is_text) return;
    if (line.starts_with("|")) return TakeRow(line);
    block_ += line + " ";
  }
  void TakeRow(const std::string& line) {
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '|');) blocks_.push_back(cell);
  }
  void End() {
    if (!block_.empty()) blocks_.push_back(block_);
    block_.clear();
  }

  std::vector<std::string> blocks_;
  std::string block_;
  bool in_code_ = false;
};

std::vector<std::string> SentencesOfBlock(std::string block) {
  static const std::regex marker(R"(^\s*([-*]|\d+\.) +)");
  static const std::regex code("`[^`]*`");
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  static const std::regex aside(R"(\([^)]*\))");
  static const std::regex emphasis(R"([*_])");
  block = std::regex_replace(block, marker, "");
  block = std::regex_replace(block, code, "CODE");
  block = std::regex_replace(block, link, "$1");
  block = std::regex_replace(block, aside, "");
  block = std::regex_replace(block, emphasis, "");
  static const std::regex end_of_sentence(R"([.!?:;]\s+)");
  std::sregex_token_iterator it(block.begin(), block.end(), end_of_sentence, -1);
  return {it, std::sregex_token_iterator()};
}

size_t NumWordsOf(const std::string& sentence) {
  std::istringstream words(sentence);
  return std::count_if(std::istream_iterator<std::string>(words), {}, [](const std::string& word) {
    return std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c); });
  });
}

TEST(ProseTest, SentencesAreShortAndBeginWithTheirSubject) {
  static const std::regex hard(R"(^\s*(Of|That|So|Who|Whoever|Nobody) .*)");
  size_t sentences = 0;
  for (const std::string& page : PagesToRead()) {
    for (const std::string& block : Blocks::Of(ReadLines(page))) {
      for (const std::string& sentence : SentencesOfBlock(block)) {
        ++sentences;
        EXPECT_LE(NumWordsOf(sentence), kMostWordsOfASentence) << page << ": " << sentence;
        EXPECT_FALSE(std::regex_match(sentence, hard)) << page << ": " << sentence;
      }
    }
  }
  EXPECT_GT(sentences, 1000u) << "the sentences were not recognised";
}

TEST(ProseTest, SentencesAreCountedWithoutCodeLinksAndAsides) {
  EXPECT_EQ(Blocks::Of({"# Head", "One", "two.", "", "    code", "", "- a `b c`", "| d | e |"}),
            (std::vector<std::string>{"One two. ", "- a `b c` ", "", " d ", " e "}));
  const std::vector<std::string> sentences =
      SentencesOfBlock("- *See* `a b` ([c d](e)). Then: stop. ");
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(NumWordsOf(sentences[0]), 2u);
}

}  // namespace
}  // namespace quire::repository
