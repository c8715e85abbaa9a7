// SPDX-License-Identifier: Apache-2.0
#include "tests/repository/layers.h"

#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

/// The words in backquotes, in order.
std::vector<std::string> QuotedWords(const std::string& text) {
  static const std::regex kQuoted("`([^`]+)`");
  std::vector<std::string> words;
  for (std::sregex_iterator it(text.begin(), text.end(), kQuoted), end; it != end; ++it) {
    words.push_back((*it)[1]);
  }
  return words;
}

std::vector<std::string> Cells(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream in(row);
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
  return cells;
}

}  // namespace

LayerTable ParseLayers(const std::string& cmake) {
  static const std::regex kSees(R"(set\(QUIRE_SEES_(\w+)([^)]*)\))");
  LayerTable table;
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), kSees), end; it != end; ++it) {
    std::set<std::string>& sees = table[(*it)[1]];
    std::istringstream words((*it)[2]);
    for (std::string word; words >> word;) sees.insert(word);
  }
  return table;
}

std::string LayerSetBy(const std::string& cmake) {
  static const std::regex kSet(R"((^|\n)\s*set\(QUIRE_LAYER (\w+)\))");
  std::smatch match;
  return std::regex_search(cmake, match, kSet) ? match[2].str() : "";
}

std::string LayerOfFolder(const std::string& folder) {
  for (std::filesystem::path at = folder; !at.empty(); at = at.parent_path()) {
    const std::string list = (at / "CMakeLists.txt").generic_string();
    if (!std::filesystem::exists(Root() / list)) continue;
    if (const std::string layer = LayerSetBy(ReadText(list)); !layer.empty()) return layer;
  }
  return "";
}

std::string IncludedFile(const std::string& line) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s+"([^"]+)")re");
  std::smatch match;
  return std::regex_search(line, match, kInclude) ? match[1].str() : "";
}

std::string FolderOfInclude(const std::string& include) {
  if (include.starts_with("quire/v1/")) return "proto";
  const std::filesystem::path path(include);
  if (!path.has_parent_path() || !std::filesystem::exists(Root() / *path.begin())) return "";
  return path.parent_path().generic_string();
}

std::string Forbidden(const LayerTable& table, const std::string& from, const std::string& to) {
  if (from == to) return "";
  const auto row = table.find(from);
  if (row == table.end()) return "layer '" + from + "' is not in cmake/Layers.cmake";
  if (row->second.contains(to)) return "";
  return "layer " + from + " may not see layer '" + to + "' (cmake/Layers.cmake)";
}

std::vector<DocumentedRow> ParseDocumentedLayers(const std::vector<std::string>& markdown) {
  std::vector<DocumentedRow> rows;
  bool inside = false;
  for (const std::string& line : markdown) {
    if (line.starts_with("## ")) inside = line == "## Layers";
    const std::vector<std::string> cells = Cells(line);
    // The row "| layer | folder | what it is | may see |" has an empty cell before the first bar.
    if (!inside || cells.size() < 5 || QuotedWords(cells[1]).empty()) continue;
    DocumentedRow row;
    row.layer = QuotedWords(cells[1]).front();
    if (const auto folders = QuotedWords(cells[2]); !folders.empty()) row.folder = folders.front();
    const std::vector<std::string> sees = QuotedWords(cells[4]);
    row.sees.insert(sees.begin(), sees.end());
    row.sees_everything = cells[4] == " everything ";
    rows.push_back(row);
  }
  return rows;
}

}  // namespace quire::repository
