// SPDX-License-Identifier: Apache-2.0
//
// Files of a target are compiled together. A constant in one file's unnamed namespace would
// silently hide one of a header in later files.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

const char* const kFolders[] = {"apps",      "bench",    "client", "cluster", "common",   "include",
                                "gpuworker", "kvserver", "python", "tests",   "transport"};

/// Name of the constant that begins on `line`; empty when none does.
std::string ConstantOn(const std::string& line) {
  const bool is_constant = line.starts_with("constexpr ") || line.starts_with("const ") ||
                           line.starts_with("inline constexpr ") ||
                           line.starts_with("inline const ");
  const size_t begin = line.find(" k");
  if (!is_constant || begin == std::string::npos) return "";
  const size_t end = line.find_first_of(" =;[{(", begin + 1);
  const std::string before = line.substr(0, begin);
  if (before.find('(') != std::string::npos) return "";
  return line.substr(begin + 1, end - begin - 1);
}

TEST(NamesTest, AConstantOfAFileDoesNotHideOneOfAHeader) {
  std::map<std::string, std::string> in_headers;
  for (const char* folder : kFolders) {
    for (const std::string& file : FilesUnder(folder, {".h"})) {
      for (const std::string& line : ReadLines(file)) {
        if (const std::string name = ConstantOn(line); !name.empty()) in_headers[name] = file;
      }
    }
  }
  EXPECT_GT(in_headers.size(), 100u) << "the constants were not recognised";
  for (const char* folder : kFolders) {
    for (const std::string& file : FilesUnder(folder, {".cc"})) {
      bool unnamed = false;
      for (const std::string& line : ReadLines(file)) {
        if (line == "namespace {") unnamed = true;
        if (line == "}  // namespace") unnamed = false;
        const auto hidden = in_headers.find(ConstantOn(line));
        EXPECT_FALSE(unnamed && hidden != in_headers.end())
            << file << ": " << hidden->first << " is also in " << hidden->second;
      }
    }
  }
}

}  // namespace
}  // namespace quire::repository
