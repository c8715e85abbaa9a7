// SPDX-License-Identifier: Apache-2.0
//
// docs/operations.md against the programs' help: it names every flag of the server, and no flag
// that no program has.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire::testing {
namespace {

using Names = std::set<std::string>;

Names FlagsOf(const std::string& text) {
  static const std::regex flag(R"(--[a-z][a-z-]*)");
  Names flags;
  for (std::sregex_iterator it(text.begin(), text.end(), flag), end; it != end; ++it) {
    flags.insert(it->str());
  }
  return flags;
}

std::string PageText() {
  std::ifstream page(QUIRE_SOURCE_DIR "/docs/operations.md");
  return std::string(std::istreambuf_iterator<char>(page), {});
}

Names FlagsOfProgram(const std::string& program, std::vector<std::string> command) {
  command.emplace_back("--help");
  const ChildResult help = RunChild(std::string(QUIRE_BINARY_DIR) + "/bin/" + program, command);
  EXPECT_EQ(help.exit_code, 0) << program;
  return FlagsOf(help.out);
}

TEST(OperationsDocTest, EveryFlagOfTheServerIsExplained) {
  const Names explained = FlagsOf(PageText());
  const Names flags = FlagsOfProgram("quired", {});
  EXPECT_GT(flags.size(), 30u);
  for (const std::string& flag : flags) {
    if (flag == "--help" || flag == "--version") continue;
    EXPECT_TRUE(explained.contains(flag)) << "docs/operations.md lacks " << flag;
  }
}

TEST(OperationsDocTest, EveryFlagThatIsExplainedIsThere) {
  Names flags = FlagsOfProgram("quired", {});
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"put"},
                                                          {"ask"},
                                                          {"worker"},
                                                          {"demo"},
                                                          {"events"},
                                                          {"fsck"},
                                                          {"plan"},
                                                          {"spec"},
                                                          {"stat"},
                                                          {"top"},
                                                          {"torture", "crash"},
                                                          {"torture", "power"},
                                                          {"torture", "load"},
                                                          {"torture", "soak"},
                                                          {"collection", "set"},
                                                          {"cluster", "drain"},
                                                          {"cluster", "restore"},
                                                          {"cluster", "settings"},
                                                          {"docs", "add"},
                                                          {"docs", "search"},
                                                          {"docs", "watch"}};
  for (const std::vector<std::string>& command : commands) {
    flags.merge(FlagsOfProgram("quire", command));
  }
  for (const std::string& flag : FlagsOf(PageText())) {
    EXPECT_TRUE(flags.contains(flag)) << "docs/operations.md explains " << flag;
  }
}

}  // namespace
}  // namespace quire::testing
