// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/token_ids.h"

#include <algorithm>
#include <charconv>

#include "apps/kit/read_file.h"

namespace quire::cli {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n";

}  // namespace

StatusOr<std::vector<TokenId>> ParseTokenIds(std::string_view text) {
  std::vector<TokenId> ids;
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    TokenId id = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size() || id < 0) {
      return InvalidArgument("'", word.substr(0, 40),
                             "' is no token id; give numbers from 0 on, separated by commas or "
                             "spaces");
    }
    ids.push_back(id);
    at = end;
  }
  if (ids.empty()) return InvalidArgument("there are no token ids; give at least one");
  return ids;
}

StatusOr<std::vector<TokenId>> ReadTokenIds(const std::string& argument) {
  if (!argument.starts_with('@')) return ParseTokenIds(argument);
  const std::string path = argument.substr(1);
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  auto ids = ParseTokenIds(text);
  if (!ids.ok()) return Annotate(ids.status(), path);
  return ids;
}

std::string FormatTokenIds(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

}  // namespace quire::cli
