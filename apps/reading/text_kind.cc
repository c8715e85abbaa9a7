// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/text_kind.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace quire::cli {
namespace {

constexpr std::array kNames = {std::pair{TextKind::kText, std::string_view("text")},
                               std::pair{TextKind::kMarkdown, std::string_view("markdown")},
                               std::pair{TextKind::kHtml, std::string_view("html")}};

constexpr std::array kExtensions = {std::pair{std::string_view(".txt"), TextKind::kText},
                                    std::pair{std::string_view(".md"), TextKind::kMarkdown},
                                    std::pair{std::string_view(".markdown"), TextKind::kMarkdown},
                                    std::pair{std::string_view(".mdown"), TextKind::kMarkdown},
                                    std::pair{std::string_view(".html"), TextKind::kHtml},
                                    std::pair{std::string_view(".htm"), TextKind::kHtml},
                                    std::pair{std::string_view(".xhtml"), TextKind::kHtml}};

constexpr std::array<std::string_view, 2> kPageBeginnings = {"<!doctype html", "<html"};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool BeginsAsPage(std::string_view text) {
  const size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos) return false;
  const std::string begin = Lower(text.substr(at, kPageBeginnings[0].size()));
  return std::ranges::any_of(kPageBeginnings,
                             [&](std::string_view page) { return begin.starts_with(page); });
}

}  // namespace

std::string_view Name(TextKind kind) { return kNames[static_cast<size_t>(kind)].second; }

std::optional<TextKind> ParseTextKind(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

TextKind KindOf(std::string_view path, std::string_view text) {
  const std::string name = Lower(path.substr(path.rfind('/') + 1));
  for (const auto& [extension, kind] : kExtensions) {
    if (name.size() > extension.size() && name.ends_with(extension)) return kind;
  }
  return BeginsAsPage(text) ? TextKind::kHtml : TextKind::kText;
}

}  // namespace quire::cli
