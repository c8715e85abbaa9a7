// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/screen_line.h"

#include <algorithm>
#include <optional>

#include "common/base/utf8.h"

namespace quire::cli {
namespace {

bool ContinuesACodePoint(char c) { return (c & 0xc0) == 0x80; }

std::string_view EscapeOf(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\x1b[1m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kBad:
      return "\x1b[1;31m";
  }
  return "";
}

/// C1 controls are code points of two bytes in UTF-8: 0xc2 and 0x80..0x9f.
bool IsControl(std::string_view text, size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c < 0x20 || c == 0x7f) return true;
  return c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
}

std::string Harmless(std::string_view text) {
  const bool is_utf8 = !FirstInvalidUtf8(text).has_value();
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool control = IsControl(text, i);
    if (control || (!is_utf8 && (text[i] & 0x80) != 0)) {
      out.push_back('?');
      while (control && i + 1 < text.size() && ContinuesACodePoint(text[i + 1])) ++i;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace

size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return !ContinuesACodePoint(c); }));
}

ScreenLine& ScreenLine::Add(std::string_view text, Style style) {
  const std::string safe = Harmless(text);
  size_t bytes = 0;
  size_t columns = 0;
  while (bytes < safe.size() && columns_ + columns < width_) {
    do ++bytes;
    while (bytes < safe.size() && ContinuesACodePoint(safe[bytes]));
    ++columns;
  }
  const std::string_view fits = std::string_view(safe).substr(0, bytes);
  columns_ += columns;
  plain_.append(fits);
  styled_.append(EscapeOf(style)).append(fits);
  if (style != Style::kPlain) styled_.append("\x1b[0m");
  return *this;
}

ScreenLine& ScreenLine::To(size_t column) {
  const size_t blanks = column > columns_ ? column - columns_ : (columns_ > 0 ? 1 : 0);
  return Add(std::string(blanks, ' '));
}

ScreenLine& ScreenLine::RightTo(size_t column, std::string_view text, Style style) {
  const size_t columns = ColumnsOf(text);
  To(column > columns ? column - columns : 0);
  return Add(text, style);
}

}  // namespace quire::cli
