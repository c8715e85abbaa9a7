// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "gpuworker/text/hf/new_characters.h"

namespace quire::worker {

Character FirstCharacter(std::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  return {code, static_cast<size_t>(std::max<utf8proc_ssize_t>(bytes, 1))};
}

Character LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return FirstCharacter(text.substr(begin));
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<signed char>(c) >= 0; });
}

bool IsWhiteSpace(int32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  if (code == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

namespace {

/// A symbol with the property Alphabetic: letters in circles and squares.
bool IsAlphabeticSymbol(int32_t code) {
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

}  // namespace

bool IsWordCharacter(int32_t code) {
  constexpr int32_t kZeroWidthNonJoiner = 0x200C;
  constexpr int32_t kZeroWidthJoiner = 0x200D;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return code == kZeroWidthNonJoiner || code == kZeroWidthJoiner || IsAlphabeticSymbol(code) ||
             IsNewWordCharacter(code);
  }
}

bool IsNumeric(int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

std::string Utf8Of(int32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t size = utf8proc_encode_char(code, bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size)};
}

}  // namespace quire::worker
