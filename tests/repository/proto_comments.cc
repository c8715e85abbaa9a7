// SPDX-License-Identifier: Apache-2.0
#include "tests/repository/proto_comments.h"

#include <regex>

namespace quire::repository {
namespace {

/// True for a non-empty comment, at the end of a line or alone on it.
bool HasComment(const std::string& line) {
  static const std::regex kComment(R"(//.*[A-Za-z0-9])");
  return std::regex_search(line, kComment);
}

bool IsComment(const std::string& line) {
  static const std::regex kAlone(R"(^\s*//)");
  return std::regex_search(line, kAlone) && HasComment(line);
}

}  // namespace

bool IsDeclaration(const std::string& line) {
  static const std::regex kBlock(R"(^\s*(service|rpc|message|enum|oneof)\s+\w)");
  // Matches fields, which have a type before the name, and enum values, which do not. The number
  // may be on the next line.
  static const std::regex kNumbered(R"(^\s*([\w.<>, ]+\s)?\w+\s*=\s*(-?\d|0x|$))");
  return std::regex_search(line, kBlock) || std::regex_search(line, kNumbered);
}

std::vector<std::string> Undocumented(std::string_view name,
                                      const std::vector<std::string>& lines) {
  std::vector<std::string> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!IsDeclaration(lines[i]) || HasComment(lines[i])) continue;
    if (i > 0 && IsComment(lines[i - 1])) continue;
    found.push_back(std::string(name) + ":" + std::to_string(i + 1) + ": " + lines[i]);
  }
  return found;
}

}  // namespace quire::repository
