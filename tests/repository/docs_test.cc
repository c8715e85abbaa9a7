// SPDX-License-Identifier: Apache-2.0
//
// Pages for people keep to their form. Decisions are short, indexed and have a status. Tables of
// folders are short. Links lead to files of the repository.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

constexpr size_t kMostWordsOfADecision = 800;
constexpr size_t kMostRowsOfAFolder = 10;

size_t NumWords(const std::string& text) {
  std::istringstream words(text);
  return std::distance(std::istream_iterator<std::string>(words), {});
}

/// Every page of the repository, without what builds and version control keep beside it.
std::vector<std::string> Pages() {
  std::vector<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(Root())) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && entry.path().extension() == ".md") pages.push_back(name);
    if (!entry.is_directory() || name == "build" || name.starts_with(".")) continue;
    for (const std::string& page : FilesUnder(name, {".md"})) pages.push_back(page);
  }
  return pages;
}

std::vector<std::string> Decisions() { return FilesUnder("docs/design", {".md"}); }

/// Targets of the page's links to files, without the part behind '#'.
std::vector<std::string> LinkedFiles(const std::string& page) {
  static const std::regex link(R"(\]\(([^)#\s]+)(#[^)\s]*)?\))");
  const std::string text = ReadText(page);
  std::vector<std::string> targets;
  for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
    const std::string target = (*it)[1];
    if (target.find("://") == std::string::npos) targets.push_back(target);
  }
  return targets;
}

/// Sizes of the page's tables: rows below each "|---|" line.
std::vector<size_t> RowsOfTables(const std::string& page) {
  std::vector<size_t> rows;
  bool in_table = false;
  for (const std::string& line : ReadLines(page)) {
    if (!line.starts_with("|")) {
      in_table = false;
    } else if (line.starts_with("|-") || line.starts_with("| -")) {
      in_table = true;
      rows.push_back(0);
    } else if (in_table) {
      ++rows.back();
    }
  }
  return rows;
}

TEST(DocsTest, ADecisionHasAtMost800Words) {
  EXPECT_GT(Decisions().size(), 30u);
  for (const std::string& decision : Decisions()) {
    EXPECT_LE(NumWords(ReadText(decision)), kMostWordsOfADecision) << decision;
  }
}

TEST(DocsTest, ADecisionHasAStatusAndItsFourSections) {
  for (const std::string& decision : Decisions()) {
    const std::string text = ReadText(decision);
    size_t last = 0;
    for (const char* part : {"\nStatus: ", "\n## Problem\n", "\n## Decision\n", "\n## Why not\n",
                             "\n## Consequences\n"}) {
      const size_t place = text.find(part, last);
      ASSERT_NE(place, std::string::npos) << decision << " lacks " << part << " in its place";
      last = place;
    }
  }
}

TEST(DocsTest, EveryPageOfDocsIsInItsIndexAndDecisionsHaveAStatusThere) {
  std::set<std::string> indexed;
  for (const std::string& target : LinkedFiles("docs/README.md")) indexed.insert("docs/" + target);
  for (const std::string& page : FilesUnder("docs", {".md"})) {
    if (page == "docs/README.md") continue;
    EXPECT_TRUE(indexed.contains(page)) << page << " is not in docs/README.md";
  }
  static const std::regex row(R"(\| \[(\d{4})\]\(design/\1-\S+\.md\) \| [^|]+ \| [^| ][^|]* \|)");
  size_t rows = 0;
  for (const std::string& line : ReadLines("docs/README.md")) rows += std::regex_match(line, row);
  EXPECT_EQ(rows, Decisions().size()) << "a decision's row lacks its number, subject or status";
}

TEST(DocsTest, LinksLeadToFilesOfTheRepository) {
  size_t links = 0;
  for (const std::string& page : Pages()) {
    const std::filesystem::path folder = (Root() / page).parent_path();
    for (const std::string& target : LinkedFiles(page)) {
      ++links;
      EXPECT_TRUE(std::filesystem::exists(folder / target)) << page << ": " << target;
    }
  }
  EXPECT_GT(links, 80u) << "the links were not recognised";
}

TEST(DocsTest, ThePageOfAFolderHasTablesOfAtMostTenRows) {
  size_t tables = 0;
  for (const char* folder : {"apps", "client", "cluster", "common", "gpuworker", "kernels",
                             "kvserver", "python", "transport"}) {
    for (const std::string& page : FilesUnder(folder, {".md"})) {
      for (const size_t rows : RowsOfTables(page)) {
        ++tables;
        EXPECT_LE(rows, kMostRowsOfAFolder) << page;
      }
    }
  }
  EXPECT_GT(tables, 10u) << "the tables were not recognised";
}

}  // namespace
}  // namespace quire::repository
