// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/system_tool.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "bench/torture/child.h"

namespace quire::torture {
namespace {

constexpr const char* kScript = "PATH=\"$PATH:/usr/sbin:/sbin\"; export PATH; exec \"$@\" 2>&1";

}  // namespace

Status RunTool(std::vector<std::string> command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  std::vector<std::string> shell = {"/bin/sh", "-c", kScript, "sh"};
  std::ranges::move(command, std::back_inserter(shell));
  QUIRE_ASSIGN_OR_RETURN(const auto child, Child::Start(std::move(shell)));
  std::string output;
  for (std::string said; child->ReadLine(&said);) output += (output.empty() ? "" : "; ") + said;
  const Status ended = child->AwaitSuccess();
  return ended.ok() ? OkStatus() : Unavailable("'", line, "' failed: ", output);
}

Status RunToolLine(const std::string& line) {
  std::istringstream words(line);
  return RunTool({std::istream_iterator<std::string>(words), {}});
}

}  // namespace quire::torture
