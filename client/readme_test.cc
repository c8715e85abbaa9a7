// SPDX-License-Identifier: Apache-2.0
//
// The example in README.md is the one that is compiled.
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

TEST(ReadmeTest, ShowsTheExampleThatIsCompiled) {
  const std::string shown = Between(ReadFile("README.md"), "```cpp\n", "```");
  const std::string compiled = Between(ReadFile("example.cc"), "// [example]\n", "// [example]");
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown, compiled);
}

}  // namespace
}  // namespace quire
