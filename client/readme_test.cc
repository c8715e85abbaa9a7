// SPDX-License-Identifier: Apache-2.0
//
// The examples in README.md are those that are compiled.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/kit/paths.h"

namespace quire {
namespace {

std::string ReadFile(const std::string& name) {
  std::ifstream file(std::string(QUIRE_SOURCE_DIR) + "/client/" + name);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// What lies between the first `begin` and the next `end` after it.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// Whether README.md shows the part of the example between two marks `name`.
bool Shows(const std::string& name) {
  const std::string mark = "// [" + name + "]\n";
  const std::string compiled = Between(ReadFile("example.cc"), mark, mark);
  return !compiled.empty() &&
         ReadFile("README.md").find("```cpp\n" + compiled + "```") != std::string::npos;
}

TEST(ReadmeTest, ShowsTheExamplesThatAreCompiled) {
  EXPECT_TRUE(Shows("put and recall"));
  EXPECT_TRUE(Shows("streaming"));
}

}  // namespace
}  // namespace quire
