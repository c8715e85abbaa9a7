// SPDX-License-Identifier: Apache-2.0
//
// The examples in the READMEs are those that are compiled.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/kit/paths.h"

namespace quire {
namespace {

std::string ReadFile(const std::string& name) {
  std::ifstream file(std::string(QUIRE_SOURCE_DIR) + "/" + name);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// The text between the first `begin` and the next `end` after it.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// True when `page` shows the part of the example between two marks `name`.
bool Shows(const std::string& page, const std::string& name) {
  const std::string mark = "// [" + name + "]\n";
  const std::string compiled = Between(ReadFile("client/example.cc"), mark, mark);
  return !compiled.empty() &&
         ReadFile(page).find("```cpp\n" + compiled + "```") != std::string::npos;
}

TEST(ReadmeTest, ShowsTheExamplesThatAreCompiled) {
  EXPECT_TRUE(Shows("README.md", "put and recall"));
  EXPECT_TRUE(Shows("client/README.md", "put and recall"));
  EXPECT_TRUE(Shows("client/README.md", "streaming"));
}

}  // namespace
}  // namespace quire
