// SPDX-License-Identifier: Apache-2.0
//
// Checks of the help that commands of `quire` print.
#ifndef QUIRE_TESTS_INTEGRATION_COMMAND_HELP_H_
#define QUIRE_TESTS_INTEGRATION_COMMAND_HELP_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire::testing {

/// Names of a command's subcommands, from its help.
inline std::vector<std::string> Subcommands(const std::string& command) {
  const ChildResult help =
      RunChild(std::string(QUIRE_BINARY_DIR) + "/bin/quire", {command, "--help"});
  std::istringstream lines(
      help.out.substr(std::min(help.out.find("Subcommands:"), help.out.size())));
  std::vector<std::string> names;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    if (line.starts_with("   ")) continue;  // Skips the wrapped summary of a long name.
    std::istringstream words(line);
    words >> names.emplace_back();
  }
  return names;
}

/// Expects examples in a command's help.
inline void ExpectHelpWithExamples(std::vector<std::string> command) {
  std::string words;
  for (const std::string& word : command) words += " " + word;
  command.push_back("--help");
  const ChildResult result = RunChild(std::string(QUIRE_BINARY_DIR) + "/bin/quire", command);
  EXPECT_EQ(result.exit_code, 0) << words;
  EXPECT_THAT(result.out, ::testing::HasSubstr("Examples:\n  quire" + words)) << words;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_COMMAND_HELP_H_
