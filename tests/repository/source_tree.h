// SPDX-License-Identifier: Apache-2.0
//
// Source files as lines of text. Paths are relative to the repository's root. An unreadable file
// throws, which fails the test.
#ifndef QUIRE_TESTS_REPOSITORY_SOURCE_TREE_H_
#define QUIRE_TESTS_REPOSITORY_SOURCE_TREE_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kit/paths.h"

namespace quire::repository {

inline std::filesystem::path Root() { return QUIRE_SOURCE_DIR; }

inline std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(Root() / path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

inline std::string ReadText(const std::string& path) {
  std::string text;
  for (const std::string& line : ReadLines(path)) text += line + "\n";
  return text;
}

/// Files under `folder` with one of `extensions` (".h"), sorted.
inline std::vector<std::string> FilesUnder(const std::string& folder,
                                           std::initializer_list<std::string_view> extensions) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Root() / folder)) {
    const std::string extension = entry.path().extension().string();
    if (std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) continue;
    files.push_back(entry.path().lexically_relative(Root()).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace quire::repository

#endif  // QUIRE_TESTS_REPOSITORY_SOURCE_TREE_H_
